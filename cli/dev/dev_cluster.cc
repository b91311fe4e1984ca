#include "cli/dev/dev_cluster.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_trainers.h"
#include "cli/dev/process.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr int kLogLines = 10;

// Any port of this machine's loopback address, which may be IPv6 only.
std::string AnyPort() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool has_ipv4 =
      fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) ::close(fd);
  return has_ipv4 ? "127.0.0.1:0" : "[::1]:0";
}

// Reuses the address of an earlier run, so that daemons that still run find the controller again.
std::string ListenAddress(const std::string& earlier, bool keep) {
  return keep && !earlier.empty() ? earlier : AnyPort();
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot make ", path, ": ", error.message()));
}

// Everybody can write to /dev/shm, so a directory that another user has made there is refused.
absl::Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make ", path, ": ", std::strerror(errno)));
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user"));
  }
  return absl::OkStatus();
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot remove ", path, ": ", error.message()));
}

}  // namespace

absl::StatusOr<DevCluster> DevCluster::Open(const DevDir& dir) {
  PACELINE_ASSIGN_OR_RETURN(StateLock lock, StateLock::Take(dir.root));
  return DevCluster(dir, std::move(lock));
}

absl::Status DevCluster::MakeDirectories() {
  PACELINE_RETURN_IF_ERROR(MakeDirectory(dir_.LogDir()));
  PACELINE_RETURN_IF_ERROR(MakeDirectory(dir_.root + "/workers"));
  return MakePrivateDirectory(dir_.RuntimeDir());
}

absl::Status DevCluster::StartDaemon(const DaemonPlace& place, std::vector<std::string> arguments,
                                     absl::Duration timeout) {
  unlink(place.address_file.c_str());
  arguments.insert(arguments.end(),
                   {"--state-dir", place.state_dir, "--address-file", place.address_file});
  PACELINE_ASSIGN_OR_RETURN(const pid_t pid,
                            StartDetached({std::move(arguments), place.log_file, dir_.root}));
  std::string end;
  const bool decided = WaitUntil(
      [&] {
        end = EndOfChild(pid);
        return !end.empty() || ReadAddresses(place).pid == pid;
      },
      timeout);
  if (decided && end.empty()) return absl::OkStatus();
  const std::string what =
      decided ? absl::StrCat("ended at once: ", end)
              : absl::StrCat("does not serve after ", absl::FormatDuration(timeout));
  return absl::UnknownError(absl::StrCat(place.name, " ", what, ". Its log, ", place.log_file,
                                         ", ends with:\n", LastLines(place.log_file, kLogLines)));
}

absl::StatusOr<std::vector<std::string>> DevCluster::Start(const DevSettings& settings,
                                                           const std::string& bin_dir,
                                                           absl::Duration timeout) {
  std::vector<std::string> running;
  for (const std::string& name : dir_.Workers()) {
    if (WorkerPlace(dir_, name).Pid() != 0) running.push_back(name);
  }
  if (!running.empty() && ReadSettings(dir_).slots != settings.slots) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cluster runs with ", ReadSettings(dir_).slots,
                     " slots per worker; `paceline dev down` ends it"));
  }
  PACELINE_RETURN_IF_ERROR(MakeDirectories());
  PACELINE_RETURN_IF_ERROR(WriteSettings(dir_, settings));
  std::vector<std::string> started;
  const DaemonPlace controller = ControllerPlace(dir_);
  if (controller.Pid() == 0) {
    const DaemonAddresses earlier = ReadAddresses(controller);
    const bool keep = !running.empty();
    PACELINE_RETURN_IF_ERROR(StartDaemon(
        controller,
        {bin_dir + "/paceline-controller", "--plaintext", "--listen",
         ListenAddress(earlier.grpc, keep), "--http", ListenAddress(earlier.http, keep)},
        timeout));
    started.push_back(controller.name);
  }
  const std::string address = ReadAddresses(controller).grpc;
  for (int i = 0; i < settings.workers; ++i) {
    const DaemonPlace worker = WorkerPlace(dir_, absl::StrCat("w", i));
    if (worker.Pid() != 0) continue;
    PACELINE_RETURN_IF_ERROR(StartDaemon(
        worker,
        {bin_dir + "/paceline-worker", "--controller", address, "--name", worker.name,
         "--runtime-dir", absl::StrCat(dir_.RuntimeDir(), "/", worker.name), "--slots",
         absl::StrCat(settings.slots), "--listen", AnyPort(), "--plaintext",
         // Only its own user can submit to it.
         "--commands", "on", "--pass-environment", "--object-store", "s3://", "--object-store",
         "gs://", "--object-store", "https://", "--object-store", "http://"},
        timeout));
    started.push_back(worker.name);
  }
  return started;
}

absl::StatusOr<int> DevCluster::Stop(absl::Duration grace) {
  int ended = 0;
  // The controller comes first, so that it does not take the end of the workers for a failure.
  std::vector<DaemonPlace> daemons = {ControllerPlace(dir_)};
  std::vector<std::string> state_dirs;
  for (const std::string& name : dir_.Workers()) {
    daemons.push_back(WorkerPlace(dir_, name));
    state_dirs.push_back(daemons.back().state_dir);
  }
  for (const DaemonPlace& daemon : daemons) {
    if (daemon.Pid() != 0) ++ended;
    PACELINE_RETURN_IF_ERROR(EndProcess([&] { return daemon.Pid(); }, grace));
    unlink(daemon.address_file.c_str());
  }
  for (const std::string& dir : state_dirs) ended += static_cast<int>(LiveTrainers(dir).size());
  PACELINE_RETURN_IF_ERROR(EndTrainers(state_dirs, grace));
  PACELINE_RETURN_IF_ERROR(RemoveAll(dir_.RuntimeDir()));
  return ended;
}

absl::Status DevCluster::Purge() {
  for (const char* name : {"/controller", "/workers", "/logs", "/cluster.json"}) {
    PACELINE_RETURN_IF_ERROR(RemoveAll(dir_.root + name));
  }
  PACELINE_RETURN_IF_ERROR(RemoveAll(dir_.root + "/lock"));
  // Fails, and keeps the folder, if it holds other files: they are not ours.
  rmdir(dir_.root.c_str());
  return absl::OkStatus();
}

std::string ProgramDir() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path().string();
}

}  // namespace paceline
