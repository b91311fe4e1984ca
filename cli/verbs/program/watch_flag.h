// -w/--watch of verbs that show something: the same, until Ctrl-C, as it changes.
#ifndef CLI_VERBS_PROGRAM_WATCH_FLAG_H_
#define CLI_VERBS_PROGRAM_WATCH_FLAG_H_

#include <functional>

#include "cli/program.h"
#include "proto/job.pb.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a name of CLI11.
class App;
}

namespace paceline {

// `watch` outlives the parser.
void AddWatchFlag(CLI::App& verb, bool* watch);

// Whether a watch keeps its text up to date in place; else it prints lines.
bool WatchesInPlace(const Program& program);

// For watches that print lines: a note when the controller is away. `program` outlives it.
std::function<void(const grpc::Status&)> OutageNote(Program& program);

// Prints a line for each job (JSON: event) that `wanted` takes, and then for each of its changes;
// for jobs that advance one every five seconds. Returns the exit code.
int TellJobChanges(Program& program, const std::function<bool(const v1::Job&)>& wanted);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_WATCH_FLAG_H_
