// Common parts of verbs: running one, flags, requests and their answers.
#ifndef CLI_VERBS_PROGRAM_VERB_PARTS_H_
#define CLI_VERBS_PROGRAM_VERB_PARTS_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "cli/program.h"
#include "proto/job.pb.h"

namespace paceline {

// Makes the program call `run` if `verb` is on the command line. `program` outlives the parser.
template <typename Flags>
void RunWith(CLI::App& verb, Program& program, const std::shared_ptr<Flags>& flags,
             int (*run)(Program&, const Flags&)) {
  verb.callback([&program, flags, run] {
    program.action = [&program, flags, run] { return run(program, *flags); };
  });
}
void Run(CLI::App& verb, Program& program, int (*run)(Program&));

// Adds JOB, --owner, --reason and --request-id. The variables outlive the parser.
void AddJob(CLI::App& verb, std::string& job);
void AddOwner(CLI::App& verb, Program& program);
void AddReason(CLI::App& verb, std::string& reason);
CLI::Option* AddRequestId(CLI::App& verb, std::string& id);

// Returns the value of --request-id, or a new one.
std::string RequestId(const std::string& flag);

// Gets a job by its id, a unique prefix of an id, or its name.
grpc::Status GetJob(Program& program, const std::string& name, v1::Job* job);

// Reports the outcome of a request: the error, or the answer as JSON or, for people, by `tell`.
// Returns the exit code.
int TellAnswer(Program& program, const grpc::Status& status,
               const google::protobuf::Message& answer,
               const std::function<void(std::ostream& out)>& tell);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_VERB_PARTS_H_
