// Why a job started again.
#ifndef CLI_VIEW_RESTART_TEXT_H_
#define CLI_VIEW_RESTART_TEXT_H_

#include <string>

#include "proto/job.pb.h"

namespace paceline {

// "rank 1 on w0: ended by signal 9 (SIGKILL)", without the count of restarts that the controller
// may put before it; neutralised. Empty when it has not.
std::string RestartCause(const v1::Job& job);

// "1 of 3", or "1" without a limit of its own.
std::string RestartsOf(const v1::Job& job);

}  // namespace paceline

#endif  // CLI_VIEW_RESTART_TEXT_H_
