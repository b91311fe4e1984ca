#include "cli/rpc/resumption.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/uuid.h"

namespace paceline {

Resumption::Resumption(Client& client, absl::Time deadline,
                       std::function<void(const grpc::Status&)> on_outage)
    : client_(client),
      deadline_(deadline),
      first_deadline_(absl::Now() + client.timeout()),
      on_outage_(std::move(on_outage)),
      backoff_({absl::Milliseconds(50), absl::Seconds(1)}, RandomBits()) {}

void Resumption::Arrived() {
  arrived_ = true;
  out_ = false;
  backoff_.Reset();
}

bool Resumption::Again(grpc::Status* status) {
  if (status->ok()) return false;
  if (client_.interrupt().raised()) {
    *status = grpc::Status(grpc::StatusCode::CANCELLED, "interrupted");
    return false;
  }
  const absl::Time now = absl::Now();
  if (now >= deadline_) {
    *status = grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the time given is over");
    return false;
  }
  const absl::Duration delay = backoff_.Next();
  switch (status->error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return true;
    case grpc::StatusCode::OUT_OF_RANGE:
      break;
    // A server that shuts down cancels its calls.
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNAVAILABLE:
      if (!arrived_ && now >= first_deadline_) return false;
      if (!out_) on_outage_(*status);
      out_ = true;
      break;
    default:
      return false;
  }
  if (client_.interrupt().WaitFor(std::min(delay, deadline_ - now))) {
    *status = grpc::Status(grpc::StatusCode::CANCELLED, "interrupted");
    return false;
  }
  return true;
}

}  // namespace paceline
