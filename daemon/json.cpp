// Boost.JSON, compiled once for the programs of this folder instead of linked as a library of its own.
#include <boost/json/src.hpp>
