#include "common/address_file.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/atomic_file/atomic_file.h"

namespace paceline {

absl::Status WriteAddressFile(const std::string& path, const std::string& grpc,
                              const std::string& http) {
  if (path.empty()) return absl::OkStatus();
  const std::string text =
      nlohmann::json{{"pid", ::getpid()}, {"grpc", grpc}, {"http", http}}.dump() + "\n";
  return WriteFileAtomically(path, {text});
}

}  // namespace paceline
