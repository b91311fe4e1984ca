// The file in which a daemon says where it serves, --address-file: {"pid", "grpc", "http"}, a line
// of JSON (docs/cli.md).
#ifndef COMMON_ADDRESS_FILE_H_
#define COMMON_ADDRESS_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace paceline {

// `grpc` and `http` are HOST:PORT, empty: not served. Writes nothing if `path` is empty. Errors of
// WriteFileAtomically.
absl::Status WriteAddressFile(const std::string& path, const std::string& grpc,
                              const std::string& http);

}  // namespace paceline

#endif  // COMMON_ADDRESS_FILE_H_
