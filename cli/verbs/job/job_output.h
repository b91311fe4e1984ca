// What the ranks of a job write, as it comes, until the job has ended.
#ifndef CLI_VERBS_JOB_JOB_OUTPUT_H_
#define CLI_VERBS_JOB_JOB_OUTPUT_H_

#include <string>

#include "cli/program.h"
#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

inline constexpr int kAllRanks = -1;

// Prints the output of `rank` as it is, or of all ranks line by line, each with its rank in front;
// what the job waits for, on the error stream. OK once the job has ended, which is in `job` then.
// Asks by `client`, and ends early when that one is interrupted.
grpc::Status PrintJobOutput(Program& program, Client& client, const std::string& job_id, int rank,
                            v1::Job* job);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_JOB_OUTPUT_H_
