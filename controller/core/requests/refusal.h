// Why a job does not take a change now.
#ifndef CONTROLLER_CORE_REQUESTS_REFUSAL_H_
#define CONTROLLER_CORE_REQUESTS_REFUSAL_H_

#include <string>

namespace paceline {

struct Refusal {
  enum class Kind {
    kArgument,  // What was asked for is impossible for this job.
    kState,     // Not as the job is now.
    kLimit,     // There is as much of it as there may be.
  };
  Kind kind = Kind::kState;
  const char* reason = "";  // In UPPER_SNAKE, as in proto/job.proto.
  std::string message;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_REFUSAL_H_
