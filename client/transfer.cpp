#include "client/transfer.hpp"

namespace gpurdma::client {

wrong_data::wrong_data(std::uint64_t block, std::uint32_t block_size, const std::string& buffer)
    : std::runtime_error{"data WRONG: the checksum of block " + std::to_string(block) + " (" +
                         std::to_string(block_size) + " bytes each) of '" + buffer + "' does not match"} {}

failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const wrong_data& e) {
    return {exit_status::data_wrong, e.what()};
  } catch (const std::exception& e) {
    return {exit_status::cannot_write, e.what()};
  }
}

}  // namespace gpurdma::client
