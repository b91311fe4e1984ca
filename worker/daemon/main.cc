// The main program of paceline-worker: flags, signals, and the life of the node's parts.
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/address_file.h"
#include "common/core/backoff.h"
#include "common/core/host_port.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"
#include "common/exit_codes.h"
#include "common/http_server.h"
#include "common/identity/principal.h"
#include "common/log.h"
#include "common/log_options.h"
#include "common/open_files.h"
#include "common/service_manager.h"
#include "common/state_lock/state_lock.h"
#include "common/tls/credentials.h"
#include "common/tls/tls_files.h"
#include "common/uuid.h"
#include "common/version.h"
#include "worker/daemon/checkpoints/run_checkpoint_task.h"
#include "worker/daemon/checks/hardware.h"
#include "worker/daemon/flags.h"
#include "worker/daemon/metrics/gpu_watch.h"
#include "worker/daemon/session/certificate_keeper.h"
#include "worker/daemon/session/join.h"
#include "worker/daemon/state/job_user.h"
#include "worker/daemon/state/runtime_dir.h"
#include "worker/daemon/trainers/trainer_environment.h"
#include "worker/daemon/worker_node.h"
#include "worker/trainer/check/pair_check.h"

namespace paceline {
namespace {

// The loop counts as stuck when it has not turned for this long.
constexpr absl::Duration kStuck = absl::Seconds(10);

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "paceline-worker: %s\n", std::string(status.message()).c_str());
  return code;
}

std::string HostName() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::string ProgramDir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

// Sets what trainers may do, and as which user.
void SetConfinement(const Flags& flags, const JobUser& user, TrainerSetup& setup) {
  setup.user = user;
  setup.environment = EnvironmentOf(user, ScrubEnvironment(OwnEnvironment()));
  setup.command_environment =
      flags.pass_environment ? EnvironmentOf(user, OwnEnvironment()) : setup.environment;
  setup.roots = flags.allowed_roots;
  if (!flags.object_stores.empty()) {
    setup.store_environment = StoreEnvironment(OwnEnvironment());
    setup.object_stores = flags.object_stores;
    std::error_code error;
    setup.object_cache = std::filesystem::absolute(flags.object_cache, error).string();
    setup.object_cache_bytes = flags.object_cache_bytes;
  }
  setup.limits.limit_nofile = flags.limit_nofile;
  setup.limits.limit_core = flags.limit_core;
  setup.limits.limit_memory = flags.limit_memory;
  setup.limits.limit_processes = flags.limit_processes;
  setup.takes_commands = flags.commands.empty() ? user.ids.uid != 0 : flags.commands == "on";
  setup.watch_dir = flags.watch_dir;
  if (user.ids.uid == 0) {
    PACELINE_LOG(WARNING) << "trainers_run_as_root, and do what users submit; give --run-as";
  }
}

// Lets trainers pass through the node's directories.
absl::Status OpenForTrainers(const NodePaths& paths, const JobUser& user) {
  if (::chmod(paths.TrainersDir().c_str(), 0711) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot change ", paths.TrainersDir()));
  }
  return CheckEnters(user, {paths.TrainersDir(), paths.runtime_dir});
}

WorkerNode::Options NodeOptions(const Flags& flags, const v1::Hardware& hardware,
                                const NodePaths& paths, const JobUser& user) {
  WorkerNode::Options options;
  options.hello.set_node(flags.name);
  options.hello.set_daemon_uid(NewUuid());
  *options.hello.mutable_hardware() = hardware;
  options.hello.set_address(flags.address);
  options.hello.set_slots(flags.slots);
  options.hello.set_version(kVersion);
  options.hello.set_spec_version(kSpecVersion);
  options.trainers.setup.paths = paths;
  options.trainers.setup.shim = flags.shim;
  options.trainers.setup.trainer = flags.trainer;
  options.trainers.setup.trainer_cuda = flags.trainer_cuda;
  SetConfinement(flags, user, options.trainers.setup);
  options.trainers.setup.log_segment_bytes = flags.log_segment_bytes;
  options.trainers.setup.orphan_timeout_s = flags.orphan_timeout_s;
  options.trainers.setup.node = flags.name;
  options.trainers.setup.address = flags.address;
  options.trainers.setup.interface = flags.interface;
  options.trainers.setup.default_threads = std::max(1, hardware.cpus() / flags.slots);
  options.session.controller = flags.controller;
  options.session.seed = RandomBits();
  options.tasks.run = [user, roots = flags.allowed_roots](const v1::CheckpointTask& task) {
    return RunCheckpointTaskAs(user, roots, task);
  };
  options.check.program = flags.probe;
  options.check.dir = paths.state_dir;
  options.check.environment = ScrubEnvironment(OwnEnvironment());
  options.trainers.log_segments = static_cast<size_t>(flags.log_segments);
  options.log_level = *ParseLogLevel(flags.log.level);
  return options;
}

// `identity`: the files of the node's certificate, if any.
HttpServer::Routes Routes(WorkerMetrics& metrics, const WorkerNode& node,
                          const std::optional<TlsFiles>& identity) {
  const auto answer = [](bool good, const char* yes, const char* no) {
    return HttpResponse{good ? 200 : 503, "text/plain; charset=utf-8", good ? yes : no};
  };
  return {
      {"/metrics",
       [&metrics, identity](const HttpServer::Query&) {
         metrics.ShowCertificateEnd(CertificateEnd(identity));
         return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics.Text()};
       }},
      {"/healthz",
       [&node, answer](const HttpServer::Query&) {
         return answer(EventLoop::Now() - node.last_alive() < kStuck, "ok\n",
                       "the event loop is stuck\n");
       }},
      {"/readyz",
       [&node, answer](const HttpServer::Query&) {
         return answer(node.ready(), "ready\n", "the controller cannot be reached\n");
       }},
  };
}

// Waits for the first certificate if there is a token for one. Returns an exit code when the
// process must exit.
std::optional<int> GetCertificate(const Flags& flags, const sigset_t& signals) {
  if (flags.plaintext) {
    PACELINE_LOG(WARNING) << "plaintext the session with the controller proves nothing and hides "
                             "nothing";
    return std::nullopt;
  }
  const JoinOptions join = {flags.controller, flags.name, flags.join_token_file, flags.ca,
                            flags.tls_dir};
  if (!flags.join_token_file.empty()) {
    absl::StatusOr<bool> must = MustJoin(join);
    // A node that has joined no longer needs the token; anything missing is reported below.
    if (absl::IsNotFound(must.status())) must = false;
    if (!must.ok()) return Fail(must.status(), kExitNoIdentity);
    Backoff backoff({absl::Milliseconds(200), absl::Seconds(10)}, RandomBits());
    absl::Status joined = *must ? Join(join) : absl::OkStatus();
    while (absl::IsUnavailable(joined)) {
      PACELINE_LOG(WARNING) << "join_waits reason=\"" << joined.message() << "\"";
      const timespec pause = absl::ToTimespec(backoff.Next());
      if (::sigtimedwait(&signals, nullptr, &pause) > 0) return kExitOk;
      joined = Join(join);
    }
    if (!joined.ok()) return Fail(joined, kExitNoIdentity);
    if (*must) PACELINE_LOG(INFO) << "joined node=" << flags.name;
  }
  const TlsFiles files = FilesIn(flags.tls_dir);
  const absl::StatusOr<Certificate> own = CheckTlsFiles(files, absl::Now());
  // The controller's clock decides: ours may be wrong.
  if (absl::IsOutOfRange(own.status())) {
    PACELINE_LOG(ERROR) << "certificate_not_valid reason=\"" << own.status().message()
                        << "\"; if the controller thinks so too, the node joins again by a token "
                           "of `paceline pki token`, with --join-token-file";
    return std::nullopt;
  }
  if (absl::IsNotFound(own.status()) && !flags.join_token_file.empty()) {
    return Fail(
        absl::NotFoundError(absl::StrCat(
            own.status().message(), "\nthis node has not joined: `paceline pki token ", flags.name,
            "`, asked by an admin, makes the secret for ", flags.join_token_file)),
        kExitNoIdentity);
  }
  if (!own.ok()) return Fail(own.status(), kExitNoIdentity);
  if (own->principal.role == Role::kWorker && own->principal.name == flags.name) {
    return std::nullopt;
  }
  return Fail(absl::FailedPreconditionError(absl::StrCat(
                  files.certificate, " is the certificate of ", PrincipalUri(own->principal),
                  ", and this node is named \"", flags.name,
                  "\": give the right --name, or a join token for this one")),
              kExitNoIdentity);
}

std::optional<HttpTls> HttpSecurity(const Flags& flags) {
  if (flags.plaintext || IsLoopback(flags.listen)) return std::nullopt;
  return HttpTls{FilesIn(flags.tls_dir),
                 [](const Principal& principal, absl::Time) { return CheckReader(principal); }};
}

CertificateKeeper::Options KeeperOptions(const Flags& flags) {
  CertificateKeeper::Options options;
  options.controllers = flags.controller;
  options.seed = RandomBits();
  if (flags.plaintext) return options;
  options.files = FilesIn(flags.tls_dir);
  options.credentials = ChannelCredentials(*options.files);
  return options;
}

// Makes the directory in which trainers keep blocks of objects, for their user alone.
absl::Status MakeObjectCache(const Flags& flags, const JobUser& user) {
  if (flags.object_stores.empty() || flags.object_cache_bytes == 0) return absl::OkStatus();
  if (::mkdir(flags.object_cache.c_str(), 0700) == 0) return GiveTo(user, flags.object_cache);
  if (errno == EEXIST) return absl::OkStatus();  // Trainers look whose it is.
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("cannot make ", flags.object_cache, " (--object-cache)"));
}

// Says in labels what the node's operator lets jobs do. `takes_objects`: read some objects of
// stores.
void AddPermissions(bool takes_commands, bool takes_objects,
                    google::protobuf::Map<std::string, std::string>* labels) {
  for (const char* const label : {"commands", "code", "sessions", "compiled"}) {
    (*labels)[label] = takes_commands ? "on" : "off";
  }
  (*labels)["objects"] = takes_objects ? "on" : "off";
}

// Serves until a signal arrives. All threads block the signals.
int Serve(const Flags& flags, const NodePaths& paths, const JobUser& user, NodeIdentity identity,
          const sigset_t& signals) {
  const v1::Hardware hardware = ReadHardware();
  const auto labels = ParseLabels(flags.labels);
  if (!labels.ok()) return Fail(labels.status(), kExitUsage);
  WorkerNode::Options options = NodeOptions(flags, hardware, paths, user);
  options.hello.mutable_labels()->insert(labels->begin(), labels->end());
  AddPermissions(options.trainers.setup.takes_commands, !flags.object_stores.empty(),
                 options.hello.mutable_labels());

  const auto pair_server = PairServer::Start(
      flags.probe_port,
      flags.address == "127.0.0.1" || flags.address == "::1" ? flags.address : "");
  if (pair_server.ok()) {
    options.hello.set_probe_address(JoinHostPort(flags.address, (*pair_server)->port()));
  } else {
    PACELINE_LOG(ERROR) << "pair_server_not_started reason=\"" << pair_server.status().message()
                        << "\", other nodes cannot measure the network to this one";
  }

  WorkerMetrics metrics(kVersion);
  const GpuWatch gpus([&metrics](const std::vector<GpuFigures>& figures) {
    metrics.SetGpus(figures, absl::Now());
  });
  EventLoop loop;
  const CertificateKeeper::Options keeper_options = KeeperOptions(flags);
  CertificateKeeper keeper(loop, keeper_options);
  options.session.credentials = keeper_options.credentials;
  options.session.unreachable = [&keeper] { keeper.Explain(); };
  WorkerNode node(loop, std::move(options), std::move(identity), metrics);
  const auto http = HttpServer::Start(flags.listen, Routes(metrics, node, keeper_options.files), {},
                                      {}, HttpSecurity(flags));
  if (!http.ok()) return Fail(http.status(), kExitCannotListen);
  const absl::Status started = node.Start(Advertised((*http)->address(), flags.address));
  if (!started.ok()) {
    return Fail(started, absl::IsInvalidArgument(started) ? kExitUsage : kExitFailure);
  }
  keeper.Start();
  const absl::Status written =
      WriteAddressFile(flags.address_file, /*grpc=*/"", (*http)->address());
  if (!written.ok()) {
    PACELINE_LOG(ERROR) << "address_file_not_written reason=\"" << written.message() << "\"";
  }
  ReportServing(loop);
  PACELINE_LOG(INFO) << "serving node=" << flags.name << " http=" << (*http)->address()
                     << " controller=" << flags.controller << " slots=" << flags.slots;

  std::thread waiter([&] {
    int received = 0;
    ::sigwait(&signals, &received);
    loop.Post([&] {
      PACELINE_LOG(INFO) << "shutting_down trainers run on";
      ReportStopping();
      node.Close([&] { loop.Stop(); });
    });
  });
  loop.Run();
  waiter.join();
  return kExitOk;
}

int Main(int argc, char** argv) {
  Flags flags;
  if (const std::optional<int> code = ParseFlags(argc, argv, flags)) return *code;
  const absl::Status filled = FillDefaults(ReadHardware().cpus(), HostName(), ProgramDir(), flags);
  if (!filled.ok()) return Fail(filled, kExitUsage);
  const auto user = FindJobUser(flags.run_as);
  if (!user.ok()) return Fail(user.status(), kExitUsage);
  const absl::Status files = RaiseOpenFiles();
  if (!files.ok()) return Fail(files, kExitFailure);
  ApplyLogFlags(flags.log, "worker");

  // Block them before any thread starts, so that all inherit it; one thread waits for them.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  const auto lock = StateLock::Take(flags.state_dir);
  if (!lock.ok()) return Fail(lock.status(), StateExitCode(lock.status()));
  std::error_code error;
  NodePaths paths;
  paths.state_dir = std::filesystem::absolute(flags.state_dir, error).string();
  const absl::Status ours = CloseStateDir(paths.state_dir, !user->is_own);
  if (!ours.ok()) return Fail(ours, kExitStateNotWritable);
  auto identity = NodeIdentity::Load(paths);
  if (!identity.ok()) return Fail(identity.status(), StateExitCode(identity.status()));
  paths.runtime_dir = flags.runtime_dir.empty()
                          ? absl::StrCat("/dev/shm/paceline-", identity->node_uid().substr(0, 8))
                          : std::filesystem::absolute(flags.runtime_dir, error).string();
  const auto runtime = RuntimeDir::Open(
      paths.runtime_dir, user->is_own ? std::nullopt : std::optional<gid_t>(user->ids.gid));
  if (!runtime.ok()) return Fail(runtime.status(), StateExitCode(runtime.status()));
  const absl::Status opened = OpenForTrainers(paths, *user);
  if (!opened.ok()) return Fail(opened, kExitStateNotWritable);
  const absl::Status cache = MakeObjectCache(flags, *user);
  if (!cache.ok()) return Fail(cache, kExitUsage);
  if (const std::optional<int> end = GetCertificate(flags, signals)) return *end;
  const int code = Serve(flags, paths, *user, *std::move(identity), signals);
  if (!flags.address_file.empty()) ::unlink(flags.address_file.c_str());
  return code;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
