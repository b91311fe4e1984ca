// The folder of a dev cluster and its layout.
//
//   lock                 held by a `paceline dev` command at work (common/state_lock)
//   cluster.json         {"workers", "slots"} of the last `dev up`
//   controller/          state directory; controller/lock names the running daemon
//   controller.json      its addresses, while it runs
//   workers/w0/          state directory of a worker; workers/w0.json its addresses
//   logs/controller.log  logs/w0.log  ...
//
// Sockets and step rings need short paths in memory: they are in /dev/shm/paceline-<8 hex digits of
// a hash of the folder>/w0/ and so on.
#ifndef CLI_DEV_DEV_DIR_H_
#define CLI_DEV_DEV_DIR_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct DevDir {
  std::string root;  // Absolute.

  std::string RuntimeDir() const;
  std::string LogDir() const { return root + "/logs"; }
  std::string SettingsFile() const { return root + "/cluster.json"; }
  // Names of the workers that have a state directory, sorted.
  std::vector<std::string> Workers() const;
};

// One daemon of the cluster: "controller", or a worker "w0".
struct DaemonPlace {
  std::string name;
  std::string state_dir;
  std::string address_file;
  std::string log_file;

  // Process id of the running daemon; 0: it is not running.
  pid_t Pid() const;
};

DaemonPlace ControllerPlace(const DevDir& dir);
DaemonPlace WorkerPlace(const DevDir& dir, const std::string& worker);

// What a daemon writes to its address file once it serves. The strings are empty if the file is
// missing.
struct DaemonAddresses {
  pid_t pid = 0;
  std::string grpc;
  std::string http;
};
DaemonAddresses ReadAddresses(const DaemonPlace& place);

struct DevSettings {
  int workers = 2;
  int slots = 2;
};
DevSettings ReadSettings(const DevDir& dir);
absl::Status WriteSettings(const DevDir& dir, const DevSettings& settings);

// $PACELINE_DEV_DIR, else ~/.paceline/dev. `variable` reads the environment.
DevDir DefaultDevDir(const std::function<std::string(const char*)>& variable);
DevDir DevDirAt(const std::string& path);

// gRPC address (host:port) of the running controller; empty if it is not running.
std::string RunningDevController(const DevDir& dir);

}  // namespace paceline

#endif  // CLI_DEV_DEV_DIR_H_
