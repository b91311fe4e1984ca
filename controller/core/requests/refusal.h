// Why a request cannot be met now.
#ifndef CONTROLLER_CORE_REQUESTS_REFUSAL_H_
#define CONTROLLER_CORE_REQUESTS_REFUSAL_H_

#include <string>

namespace paceline {

struct Refusal {
  enum class Kind {
    kArgument,  // Can never be done for this job.
    kState,     // Cannot be done in the present state.
    kLimit,     // There is already as much as there may be.
  };
  Kind kind = Kind::kState;
  const char* reason = "";  // In UPPER_SNAKE, as in proto/job.proto.
  std::string message;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_REFUSAL_H_
