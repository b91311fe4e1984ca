#include "common/not_leader.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {

std::optional<std::string> LeaderNamedIn(const grpc::Status& status) {
  google::rpc::Status whole;
  if (status.ok() || !whole.ParseFromString(status.error_details())) return std::nullopt;
  google::rpc::ErrorInfo info;
  for (const auto& detail : whole.details()) {
    if (!detail.UnpackTo(&info) || info.reason() != kNotLeaderReason) continue;
    const auto leader = info.metadata().find(kLeaderMetadata);
    return leader == info.metadata().end() ? "" : leader->second;
  }
  return std::nullopt;
}

}  // namespace paceline
