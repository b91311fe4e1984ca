// Watches nodes until they are drained: a line for each change. The drain does not depend on being
// watched.
#ifndef CLI_VERBS_DRAIN_WATCH_H_
#define CLI_VERBS_DRAIN_WATCH_H_

#include <set>
#include <string>

#include "cli/program.h"

namespace paceline {

// Returns the exit code: 0 when all are DRAINED; 1 when somebody took the drain of one away, or one
// is LOST.
int AwaitDrained(Program& program, std::set<std::string> nodes);

}  // namespace paceline

#endif  // CLI_VERBS_DRAIN_WATCH_H_
