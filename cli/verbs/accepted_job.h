// What comes after the controller has taken a job: its id, and the job followed if wanted.
#ifndef CLI_VERBS_ACCEPTED_JOB_H_
#define CLI_VERBS_ACCEPTED_JOB_H_

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "cli/program.h"
#include "proto/job.pb.h"

namespace paceline {

struct AcceptedJobFlags {
  bool wait = false;
  bool follow = false;
  bool parsable = false;
};

// --wait, --follow, --parsable. `flags` outlives the parser.
void AddAcceptedJobFlags(CLI::App& verb, AcceptedJobFlags* flags);

// `done`: what became of it, "submitted". Returns the exit code.
int TellAcceptedJob(Program& program, const v1::Job& job, const std::string& done,
                    const AcceptedJobFlags& flags);

}  // namespace paceline

#endif  // CLI_VERBS_ACCEPTED_JOB_H_
