// Page sizes and tokens of List calls.
#ifndef CONTROLLER_RPC_PAGING_H_
#define CONTROLLER_RPC_PAGING_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

namespace paceline {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;

// The number of entries to return for what was asked; INVALID_ARGUMENT, reason
// PAGE_SIZE_INVALID, if negative.
grpc::Status CheckPageSize(int asked, int* size);

// INVALID_ARGUMENT, reason PAGE_TOKEN_INVALID.
grpc::Status BadPageToken(const std::string& token);

}  // namespace paceline

#endif  // CONTROLLER_RPC_PAGING_H_
