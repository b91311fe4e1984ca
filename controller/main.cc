// paceline-controller: signals, and the life of the leadership and the server.
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/log_options.h"
#include "common/open_files.h"
#include "controller/election/leadership.h"
#include "controller/flags.h"
#include "controller/own_identity.h"
#include "controller/queue_file.h"
#include "controller/server.h"

namespace paceline {
namespace {

// Runs the last given function when the process is asked to end (SIGTERM or SIGINT). These signals
// are blocked in all threads, as is SIGUSR1, which ends the wait for them.
class EndSignal {
 public:
  explicit EndSignal(const sigset_t& signals) : thread_([this, signals] { Wait(signals); }) {}
  ~EndSignal() {
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;

  // Sets the function; runs it at once if the signal has already come.
  void Then(std::function<void()> then) {
    absl::MutexLock lock(&mutex_);
    then_ = std::move(then);
    if (received_) then_();
  }

 private:
  void Wait(const sigset_t& signals) {
    int received = 0;
    sigwait(&signals, &received);
    if (received == SIGUSR1) return;
    absl::MutexLock lock(&mutex_);
    received_ = true;
    then_();
  }

  absl::Mutex mutex_;
  bool received_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ ABSL_GUARDED_BY(mutex_) = [] {};
  std::thread thread_;  // Last: uses all the others.
};

// Exits at once: anything more that this process did would be done beside another leader. It is
// restarted as a standby.
void EndAsDeposed(const std::string& why) {
  PACELINE_LOG(ERROR) << "deposed reason=\"" << why << "\"";
  std::_Exit(kExitDeposed);
}

int Fail(const ServerFailure& failure) {
  std::fprintf(stderr, "paceline-controller: %s\n", std::string(failure.status.message()).c_str());
  return failure.exit_code;
}

// Stands by until this controller leads. Returns an exit code if the process has to end first.
std::optional<int> Lead(ControllerFlags& flags, EndSignal& end,
                        std::unique_ptr<Leadership>& leadership, Elected& elected) {
  ServerOptions& server = flags.server;
  const ServerFailure unknown = CheckIdentity(server);
  if (!unknown.status.ok()) return Fail(unknown);
  Leadership::Options& leading = flags.leading;
  leading.credentials = GrpcCredentials(server);
  leading.http_tls = HttpTlsOf(server);
  leading.identity = IdentityFiles(server);
  leading.listen = server.listen;
  leading.http = server.http;
  leading.state_dir = server.state_dir;
  leading.address_file = server.address_file;
  leading.deposed = EndAsDeposed;
  leadership = std::make_unique<Leadership>(std::move(leading));
  const ServerFailure failed = leadership->Start();
  if (!failed.status.ok()) return Fail(failed);
  end.Then([&] { leadership->Stop(); });
  auto won = leadership->Wait();
  end.Then([] {});
  if (absl::IsCancelled(won.status())) return kExitOk;
  if (!won.ok()) return Fail(StateFailure(won.status()));
  elected = *std::move(won);
  server.listen = leadership->listen();
  server.http = leadership->http();
  return std::nullopt;
}

// Serves until a signal comes. Requires: the signals are blocked in all threads.
int Serve(ControllerFlags flags, const sigset_t& signals) {
  EndSignal end(signals);
  std::unique_ptr<Leadership> leadership;  // Outlives the server.
  Elected elected;
  if (flags.store == "etcd") {
    const std::optional<int> ended = Lead(flags, end, leadership, elected);
    if (ended.has_value()) return *ended;
  }
  Server server(flags.server);
  const ServerFailure failed = server.Start(std::move(elected));
  if (!failed.status.ok()) return Fail(failed);
  end.Then([&] { server.Shutdown(); });
  const ServerFailure ended = server.Run();
  end.Then([] {});
  return ended.status.ok() ? kExitOk : Fail(ended);
}

int Main(int argc, char** argv) {
#ifdef NDEBUG
  // The distribution's Abseil is built with deadlock detection: each lock of a mutex, gRPC's own
  // included, is entered into one global graph, under a lock. Optimised builds switch that off.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  // Files must be readable by this user only: the environments of jobs may hold secrets.
  ::umask(077);
  ControllerFlags flags;
  if (const std::optional<int> code = ParseFlags(argc, argv, flags)) return *code;
  const absl::Status files = RaiseOpenFiles();
  if (!files.ok()) return Fail({files, kExitFailure});
  ApplyLogFlags(flags.log, "controller");
  if (!flags.queues.empty()) {
    absl::StatusOr<Queues> read = ReadQueueFile(flags.queues);
    if (!read.ok()) return Fail({read.status(), kExitUsage});
    flags.server.cluster.queues = *std::move(read);
  }

  // Blocked before any thread starts, so that all threads inherit it; one thread waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  return Serve(std::move(flags), signals);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
