// -w/--watch for verbs that show something: keeps showing it as it changes, until Ctrl-C.
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

// Whether a watch updates its text in place; else it prints lines.
bool WatchesInPlace(const Program& program);

// For watches that print lines: writes a note when the controller is away. `program` outlives it.
std::function<void(const grpc::Status&)> OutageNote(Program& program);

// Prints a line (JSON: event) for each job that is `wanted`, and then for each of its changes, at
// most one per five seconds for progress. Returns the exit code.
int TellJobChanges(Program& program, const std::function<bool(const v1::Job&)>& wanted);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_WATCH_FLAG_H_
