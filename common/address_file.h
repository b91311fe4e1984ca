// The file named by --address-file, in which a daemon writes the addresses it serves at: one line
// of JSON, {"pid", "grpc", "http"} (docs/cli.md).
#ifndef COMMON_ADDRESS_FILE_H_
#define COMMON_ADDRESS_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace paceline {

// `grpc` and `http` are HOST:PORT, or empty if not served. Writes nothing if `path` is empty.
// Errors as for WriteFileAtomically.
absl::Status WriteAddressFile(const std::string& path, const std::string& grpc,
                              const std::string& http);

}  // namespace paceline

#endif  // COMMON_ADDRESS_FILE_H_
