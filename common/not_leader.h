// The answer of a standby controller to every call: UNAVAILABLE, with a google.rpc.ErrorInfo with
// reason NOT_LEADER, whose metadata names the leader, if there is one.
#ifndef COMMON_NOT_LEADER_H_
#define COMMON_NOT_LEADER_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

namespace paceline {

inline constexpr char kNotLeaderReason[] = "NOT_LEADER";
// Key in the ErrorInfo's metadata; the value is HOST:PORT.
inline constexpr char kLeaderMetadata[] = "leader";

// The leader named by a standby (empty: none); nothing if the status is not such an answer.
std::optional<std::string> LeaderNamedIn(const grpc::Status& status);

}  // namespace paceline

#endif  // COMMON_NOT_LEADER_H_
