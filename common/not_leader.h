// How a controller that stands by answers every call: UNAVAILABLE, with a google.rpc.ErrorInfo of
// reason NOT_LEADER that names the leader, if there is one, in its metadata.
#ifndef COMMON_NOT_LEADER_H_
#define COMMON_NOT_LEADER_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

namespace paceline {

inline constexpr char kNotLeaderReason[] = "NOT_LEADER";
// Key of the ErrorInfo's metadata: HOST:PORT.
inline constexpr char kLeaderMetadata[] = "leader";

// Whom a standby has named, empty: nobody; nothing if the status is not such an answer.
std::optional<std::string> LeaderNamedIn(const grpc::Status& status);

}  // namespace paceline

#endif  // COMMON_NOT_LEADER_H_
