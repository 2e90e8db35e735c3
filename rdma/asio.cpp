// Asio's implementation, compiled once: BOOST_ASIO_SEPARATE_COMPILATION is set for every target.
#include <boost/asio/impl/src.hpp>
