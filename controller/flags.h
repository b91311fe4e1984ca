// The flags of paceline-controller.
#ifndef CONTROLLER_FLAGS_H_
#define CONTROLLER_FLAGS_H_

#include <optional>
#include <string>

#include "common/log_options.h"
#include "controller/election/leadership.h"
#include "controller/server.h"

namespace paceline {

struct ControllerFlags {
  ServerOptions server;         // Its queues come from the file `queues`.
  std::string queues;           // Path; see controller/queue_file.h. Empty: one queue.
  std::string store;            // "sqlite" or "etcd".
  Leadership::Options leading;  // Set as far as flags say; the rest is as in `server`.
  LogFlags log;
};

// Reads the command line and the file that it names. Returns an exit code if the process has to
// end: after --help or --version, or after wrong usage, which is then reported on stderr.
std::optional<int> ParseFlags(int argc, const char* const* argv, ControllerFlags& flags);

}  // namespace paceline

#endif  // CONTROLLER_FLAGS_H_
