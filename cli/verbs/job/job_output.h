// Prints the output of a job's ranks as it comes, until the job has ended.
#ifndef CLI_VERBS_JOB_JOB_OUTPUT_H_
#define CLI_VERBS_JOB_JOB_OUTPUT_H_

#include <string>

#include "cli/program.h"
#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

inline constexpr int kAllRanks = -1;

// Prints the output of `rank` unchanged, or of all ranks line by line, each line with its rank in
// front. What the job waits for goes to the error stream. Returns OK once the job has ended; `job`
// is then its final state. Calls by `client`, and ends early if that is interrupted.
grpc::Status PrintJobOutput(Program& program, Client& client, const std::string& job_id, int rank,
                            v1::Job* job);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_JOB_OUTPUT_H_
