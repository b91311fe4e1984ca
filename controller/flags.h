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
  ServerOptions server;         // Its queues are those of the file below.
  std::string queues;           // controller/queue_file.h. Empty: one queue.
  std::string store;            // "sqlite" or "etcd".
  Leadership::Options leading;  // What the flags say of it; the rest is as of `server`.
  LogFlags log;
};

// Reads the command line and the file that it names. Returns the exit code when the process has to
// end: after --help or --version, or for wrong usage, which has been told on stderr.
std::optional<int> ParseFlags(int argc, const char* const* argv, ControllerFlags& flags);

}  // namespace paceline

#endif  // CONTROLLER_FLAGS_H_
