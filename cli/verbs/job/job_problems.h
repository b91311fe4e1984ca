// Tells what is wrong with a job file, at its places in the file.
#ifndef CLI_VERBS_JOB_JOB_PROBLEMS_H_
#define CLI_VERBS_JOB_JOB_PROBLEMS_H_

#include <string>

#include "cli/job_file/job_file.h"
#include "cli/program.h"
#include "grpcpp/support/status.h"

namespace paceline {

// Prints the file's problems. `file`: its path. Returns the exit code, as the next does.
int TellProblems(Program& program, const std::string& file, const JobFile& job_file);

// Prints what the server refused of the job, or the status if it is not about the file.
int TellRefusal(Program& program, const std::string& file, const JobFile& job_file,
                const grpc::Status& status);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_JOB_PROBLEMS_H_
