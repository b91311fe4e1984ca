// What many verbs have in common: how one is run, flags, requests and what comes of them.
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

// When `verb` is named on the command line, the program runs `run`. `program` outlives the parser.
template <typename Flags>
void RunWith(CLI::App& verb, Program& program, const std::shared_ptr<Flags>& flags,
             int (*run)(Program&, const Flags&)) {
  verb.callback([&program, flags, run] {
    program.action = [&program, flags, run] { return run(program, *flags); };
  });
}
void Run(CLI::App& verb, Program& program, int (*run)(Program&));

// JOB, --owner, --reason and --request-id. What they write outlives the parser.
void AddJob(CLI::App& verb, std::string& job);
void AddOwner(CLI::App& verb, Program& program);
void AddReason(CLI::App& verb, std::string& reason);
CLI::Option* AddRequestId(CLI::App& verb, std::string& id);

// --request-id, else a new one.
std::string RequestId(const std::string& flag);

// The job by its id, the unique beginning of an id, or its name.
grpc::Status GetJob(Program& program, const std::string& name, v1::Job* job);

// What came of a request: the error, else the answer as JSON or, for people, what `tell` writes.
// Returns the exit code.
int TellAnswer(Program& program, const grpc::Status& status,
               const google::protobuf::Message& answer,
               const std::function<void(std::ostream& out)>& tell);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_VERB_PARTS_H_
