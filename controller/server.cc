#include "controller/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/address_file.h"
#include "common/event_loop.h"
#include "common/exit_codes.h"
#include "common/http_server.h"
#include "common/identity/principal.h"
#include "common/log.h"
#include "common/service_manager.h"
#include "common/state_lock/state_lock.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/tls_files.h"
#include "common/version.h"
#include "controller/api/admission/access.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/admission/caller.h"
#include "controller/api/admission/user_tokens.h"
#include "controller/api/audit/audit.h"
#include "controller/api/services/admin_service.h"
#include "controller/api/services/automation_service.h"
#include "controller/api/services/checkpoint_service.h"
#include "controller/api/services/held_code.h"
#include "controller/api/services/history_service.h"
#include "controller/api/services/identity_service.h"
#include "controller/api/services/job_service.h"
#include "controller/api/services/lists.h"
#include "controller/api/services/node_service.h"
#include "controller/api/services/sender.h"
#include "controller/api/services/telemetry_service.h"
#include "controller/api/services/worker_sessions.h"
#include "controller/discovery.h"
#include "controller/grpc_port.h"
#include "controller/loop/control_loop.h"
#include "controller/metrics/metrics.h"
#include "controller/own_identity.h"
#include "controller/page/page.h"
#include "controller/store/records.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/state_file.h"

namespace paceline {
namespace {

// How long requests under way may take to finish when the controller ends. They take milliseconds,
// but clients with an idle connection use up all of it.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);
// Between two looks at when the certificate ends.
constexpr absl::Duration kCertificateLook = absl::Hours(1);

}  // namespace

ServerFailure StateFailure(const absl::Status& status) { return {status, StateExitCode(status)}; }

// The parts of the server, and their wiring.
class Server::Parts {
 public:
  explicit Parts(ServerOptions options);
  ~Parts();

  // As Server::Start.
  ServerFailure Start(Elected elected);
  ServerFailure Run();
  void Shutdown();

 private:
  ServerFailure OpenAuthority();
  ServerFailure OpenState(Elected& elected);
  // Checks the table of roles, and makes access_ unless in plain text.
  ServerFailure OpenAccess();
  // Serves both ports and writes their addresses. On failure neither is served.
  ServerFailure Serve();
  ServerFailure ListenHttp();
  ServerFailure ListenGrpc();
  // From any thread.
  Principal FindCaller(const grpc::ServerContextBase& context) const;
  std::optional<HttpTls> HttpSecurity();
  IdentityService::Options IdentityOptions();
  // Ends what clients watch and read; they may reopen it.
  void CloseStreams(const char* why);
  // Periodically logs that the certificate is about to expire.
  void WatchCertificate();
  // Size of the state store, in bytes. Any thread: SizeBytes is only asked of etcd.
  int64_t StateBytes() const {
    return lock_ == nullptr ? store_->SizeBytes() : StateFileBytes(options_.state_dir);
  }
  HttpServer::Routes Routes();

  const ServerOptions options_;
  EventLoop loop_;
  Sender sender_;
  ControllerMetrics metrics_;
  CallLimits limits_;
  Lists lists_{&loop_, &sender_, &limits_};
  std::atomic<bool> ready_{false};
  ServerFailure failure_;  // On the loop.

  // In the order in which Start makes them.
  std::unique_ptr<StateLock> lock_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<ControlLoop> control_;
  std::unique_ptr<HeldCode> code_;
  std::unique_ptr<WorkerSessions> workers_;
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<NodeService> nodes_;
  std::unique_ptr<AutomationService> automation_;
  std::unique_ptr<CheckpointService> checkpoints_;
  std::unique_ptr<AdminService> admin_;
  std::optional<CertificateAuthority> authority_;
  std::optional<Identities> restored_;  // Until the service takes them over.
  std::unique_ptr<IdentityService> identities_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Access> access_;  // Null in plain text.
  std::unique_ptr<TelemetryService> telemetry_;
  std::unique_ptr<Page> page_;
  std::unique_ptr<HistoryService> histories_;
  std::unique_ptr<Discovery> discovery_;
  std::unique_ptr<HttpServer> http_;
  std::string grpc_address_;
  std::unique_ptr<grpc::Server> grpc_;
  std::thread shutdown_;  // Waits for requests under way to finish.
};

Server::Parts::Parts(ServerOptions options)
    : options_(std::move(options)),
      metrics_(kVersion),
      limits_(options_.limits, &metrics_.limits()) {}

Server::Parts::~Parts() {
  if (shutdown_.joinable()) shutdown_.join();
}

ServerFailure Server::Parts::OpenAuthority() {
  if (options_.plaintext || options_.ca_dir.empty()) return {};
  absl::StatusOr<CertificateAuthority> authority = CertificateAuthority::Load(options_.ca_dir);
  if (!authority.ok()) return {authority.status(), kExitNoIdentity};
  authority_ = *std::move(authority);
  PACELINE_LOG(INFO) << "authority directory=" << options_.ca_dir;
  return {};
}

void Server::Parts::WatchCertificate() {
  const std::optional<TlsFiles> files = IdentityFiles(options_);
  if (!files.has_value()) return;
  LogCertificateEnd(*files, absl::Now());
  loop_.After(kCertificateLook, [this] { WatchCertificate(); });
}

std::optional<HttpTls> Server::Parts::HttpSecurity() {
  std::optional<HttpTls> tls = HttpTlsOf(options_);
  if (!tls.has_value()) return tls;
  tls->check = [this](const Principal& principal, absl::Time issued) {
    const absl::Status readers = CheckReader(principal);
    return readers.ok() ? identities_->CheckRevoked(principal, issued) : readers;
  };
  return tls;
}

ServerFailure Server::Parts::OpenState(Elected& elected) {
  store_ = std::move(elected.store);
  if (store_ == nullptr) {
    auto lock = StateLock::Take(options_.state_dir);
    if (!lock.ok()) return StateFailure(lock.status());
    lock_ = std::make_unique<StateLock>(*std::move(lock));
    const std::string file = absl::StrCat(options_.state_dir, "/", kStateFileName);
    const absl::StatusOr<bool> made = MakeStateIfNone(file);
    if (!made.ok()) return StateFailure(made.status());
    if (*made) PACELINE_LOG(WARNING) << "state_new file=" << file << ": a new cluster begins";
    auto store = SqliteStore::Open(file);
    if (!store.ok()) return StateFailure(store.status());
    store_ = *std::move(store);
  }
  auto state = LoadState(*store_);
  if (!state.ok()) return StateFailure(state.status());
  state->term = TermOf(*state, elected.term);
  auto identities = LoadIdentities(*store_);
  if (!identities.ok()) return StateFailure(identities.status());
  restored_ = *std::move(identities);
  auto code = HeldCode::Load(*store_);
  if (!code.ok()) return StateFailure(code.status());
  PACELINE_LOG(INFO) << "state_loaded jobs=" << state->jobs.size()
                     << " nodes=" << state->nodes.size() << " cluster=" << state->cluster_id
                     << " start=" << state->starts << " term=" << state->term;
  if (state->restored != 0) {
    PACELINE_LOG(WARNING) << "state_restored number=" << state->restored
                          << ": jobs that trained start again as later generations";
  }
  control_ = std::make_unique<ControlLoop>(&loop_, store_.get(), &metrics_, *std::move(state),
                                           options_.cluster);
  code_ = std::make_unique<HeldCode>(&loop_, control_.get(), *std::move(code));
  auto audit = AuditLog::Open(options_.audit_log.empty() ? options_.state_dir + "/audit.jsonl"
                                                         : options_.audit_log);
  if (!audit.ok()) return {audit.status(), kExitStateNotWritable};
  audit_ = *std::move(audit);
  return {};
}

ServerFailure Server::Parts::OpenAccess() {
  if (options_.plaintext && !options_.user_tokens.empty()) {
    return {absl::FailedPreconditionError(
                "--user-tokens is of no use without TLS: tokens would be sent in plain text"),
            kExitUsage};
  }
  if (options_.plaintext) return {};
  std::unique_ptr<UserTokens> tokens;
  if (!options_.user_tokens.empty()) {
    auto opened = UserTokens::Open(options_.user_tokens);
    if (!opened.ok()) return {opened.status(), kExitUsage};
    tokens = *std::move(opened);
  }
  access_ = std::make_unique<Access>(
      std::move(tokens),
      Revocations{TimesOf,
                  [this](const Principal& principal, absl::Time issued) {
                    return identities_->CheckRevoked(principal, issued);
                  }},
      [this](const Principal& caller) { return limits_.AdmitCall(caller, EventLoop::Now()); },
      &metrics_.access(), audit_.get());
  return {};
}

Principal Server::Parts::FindCaller(const grpc::ServerContextBase& context) const {
  return access_ == nullptr ? CallerByWord(context) : access_->FindCaller(context);
}

ServerFailure Server::Parts::ListenHttp() {
  HttpLimits limits;
  limits.refused = [this](HttpRefusal refusal) {
    metrics_.limits().Refused(refusal == HttpRefusal::kStreams ? Limit::kHttpStreams
                                                               : Limit::kHttpConnections);
  };
  HttpServer::Streams streams;
  streams["/events"] = [this](const HttpServer::Query& query) { return page_->Listen(query); };
  auto http =
      HttpServer::Start(options_.http, Routes(), std::move(streams), limits, HttpSecurity());
  if (!http.ok()) return {http.status(), kExitCannotListen};
  http_ = *std::move(http);
  return {};
}

ServerFailure Server::Parts::ListenGrpc() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  LimitClients(builder, options_.handshake_patience);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(metrics_.rpcs().NewInterceptors());
  interceptors.push_back(MakeAuditInterceptors(audit_.get()));
  interceptors.push_back(MakeCallerInterceptors(
      [this](const grpc::ServerContextBase& context) { return FindCaller(context); }));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  const std::shared_ptr<grpc::ServerCredentials> credentials = GrpcCredentials(options_);
  if (access_ != nullptr) credentials->SetAuthMetadataProcessor(access_->NewProcessor());
  builder.RegisterService(workers_.get());
  builder.RegisterService(jobs_.get());
  builder.RegisterService(nodes_.get());
  builder.RegisterService(automation_.get());
  builder.RegisterService(checkpoints_.get());
  builder.RegisterService(admin_.get());
  builder.RegisterService(identities_.get());
  builder.RegisterService(telemetry_.get());
  builder.RegisterService(histories_.get());
  absl::StatusOr<GrpcPort> port = OpenGrpcPort(builder, options_.listen, credentials);
  if (!port.ok()) return {port.status(), kExitCannotListen};
  grpc_ = std::move(port->server);
  grpc_address_ = std::move(port->address);
  return {};
}

ServerFailure Server::Parts::Serve() {
  // gRPC comes last: from then on there are calls, whose handlers wait for the loop.
  ServerFailure failure = ListenHttp();
  if (failure.status.ok()) failure = ListenGrpc();
  if (!failure.status.ok()) {
    http_.reset();
    return failure;
  }
  // The address file gets the real ports.
  const absl::Status written =
      WriteAddressFile(options_.address_file, grpc_address_, http_->address());
  if (written.ok()) return {};
  // The loop must run, or else gRPC would wait for those calls for ever.
  Shutdown();
  Run();
  return StateFailure(written);
}

ServerFailure Server::Parts::Start(Elected elected) {
  ServerFailure failure = CheckIdentity(options_);
  if (failure.status.ok()) failure = OpenAuthority();
  if (failure.status.ok()) failure = OpenState(elected);
  if (failure.status.ok()) failure = OpenAccess();
  if (!failure.status.ok()) return failure;
  workers_ = std::make_unique<WorkerSessions>(
      &loop_, control_.get(), code_.get(), &metrics_, &limits_,
      [this](const grpc::ServerContextBase& context) { return FindCaller(context); },
      elected.may_act);
  jobs_ = std::make_unique<JobService>(&loop_, &sender_, &lists_, control_.get(), code_.get(),
                                       workers_.get(), &metrics_, &limits_);
  nodes_ =
      std::make_unique<NodeService>(&loop_, &sender_, &lists_, control_.get(), &metrics_, &limits_);
  automation_ = std::make_unique<AutomationService>(&loop_, control_.get(), &metrics_, &limits_);
  checkpoints_ = std::make_unique<CheckpointService>(&loop_, control_.get(), &metrics_, &limits_);
  admin_ = std::make_unique<AdminService>(
      &loop_, control_.get(), &limits_,
      lock_ == nullptr ? "" : absl::StrCat(options_.state_dir, "/", kStateFileName));
  identities_ =
      std::make_unique<IdentityService>(&loop_, control_.get(), &metrics_, &limits_,
                                        *std::exchange(restored_, std::nullopt), IdentityOptions());
  telemetry_ = std::make_unique<TelemetryService>(&loop_, &lists_, control_.get(), &limits_);
  page_ = std::make_unique<Page>(&loop_, control_.get());
  histories_ = std::make_unique<HistoryService>(&loop_, &sender_, control_.get(), &limits_);
  discovery_ = std::make_unique<Discovery>(&loop_, &control_->cluster());
  control_->SetListeners({
      [this](const NodeName& node, const v1::NodePlan& plan) { workers_->SendPlan(node, plan); },
      [this] { jobs_->WakeWatchers(); },
      [this] {
        nodes_->WakeWatchers();
        jobs_->WakeLogReaders();
        discovery_->UpdateSoon();
      },
      [this] { histories_->WakeWatchers(); },
      [this](absl::Status status) {
        failure_ = StateFailure(
            absl::Status(status.code(), absl::StrCat("cannot store state: ", status.message())));
        Shutdown();
      },
  });
  discovery_->Update();
  elected.make_way();
  failure = Serve();
  if (!failure.status.ok()) return failure;
  WatchCertificate();
  metrics_.SetLeads(true);
  ready_ = true;
  ReportServing(loop_);
  PACELINE_LOG(INFO) << "serving grpc=" << grpc_address_ << " http=" << http_->address();
  return {};
}

IdentityService::Options Server::Parts::IdentityOptions() {
  IdentityService::Options options;
  options.authority = authority_;
  options.worker_life = options_.worker_certificate_life;
  options.plaintext = options_.plaintext;
  options.revoked = [this](const Principal& principal, const std::string& text) {
    if (principal.role == Role::kWorker) {
      return workers_->CloseRevoked(NodeName(principal.name), text);
    }
    // The streams' owners are not known here. Readers reopen theirs; revoked callers cannot.
    CloseStreams("somebody was revoked: open the stream again");
    // A server that is shutting down ends its streams anyway, on another thread.
    if (!shutdown_.joinable()) http_->EndStreams();
  };
  return options;
}

ServerFailure Server::Parts::Run() {
  loop_.Run();
  if (shutdown_.joinable()) shutdown_.join();
  return failure_;
}

void Server::Parts::Shutdown() {
  ready_ = false;
  metrics_.SetLeads(false);
  loop_.Post([this] {
    if (shutdown_.joinable()) return;
    PACELINE_LOG(INFO) << "shutting_down";
    ReportStopping();
    grpc_->GetHealthCheckService()->SetServingStatus(false);
    CloseStreams("the controller is shutting down");
    workers_->CloseAll();
    shutdown_ = std::thread([this] {
      grpc_->Shutdown(absl::ToChronoTime(absl::Now() + kShutdownGrace));
      grpc_->Wait();
      http_.reset();
      loop_.Stop();
    });
  });
}

void Server::Parts::CloseStreams(const char* why) {
  const grpc::Status status(grpc::StatusCode::UNAVAILABLE, why);
  jobs_->CloseStreams(status);
  nodes_->CloseStreams(status);
  histories_->CloseStreams(status);
}

HttpServer::Routes Server::Parts::Routes() {
  return {
      {"/", [](const HttpServer::Query&) { return Page::Html(); }},
      {"/curves", [this](const HttpServer::Query& query) { return page_->Curves(query); }},
      {"/metrics",
       [this](const HttpServer::Query&) {
         metrics_.ShowCertificateEnd(CertificateEnd(IdentityFiles(options_)));
         return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8",
                             metrics_.Text(StateBytes())};
       }},
      {"/healthz",
       [](const HttpServer::Query&) {
         return HttpResponse{200, "text/plain; charset=utf-8", "ok\n"};
       }},
      {"/readyz",
       [this](const HttpServer::Query&) {
         const std::string how = options_.plaintext
                                     ? "plain text: everybody on this machine is an administrator\n"
                                     : "";
         return ready_ ? HttpResponse{200, "text/plain; charset=utf-8", "ready\n" + how}
                       : HttpResponse{503, "text/plain; charset=utf-8", "not ready\n" + how};
       }},
      {"/sd",
       [this](const HttpServer::Query&) {
         return HttpResponse{200, "application/json", discovery_->targets()};
       }},
  };
}

Server::Server(ServerOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

Server::~Server() = default;

ServerFailure Server::Start(Elected elected) { return parts_->Start(std::move(elected)); }

ServerFailure Server::Run() { return parts_->Run(); }

void Server::Shutdown() { parts_->Shutdown(); }

}  // namespace paceline
