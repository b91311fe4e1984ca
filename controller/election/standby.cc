#include "controller/election/standby.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/not_leader.h"
#include "common/version.h"
#include "controller/grpc_port.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// A call that is refused at once.
class Refused : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

std::string Describe(const std::string& leader) {
  return leader.empty() ? "this controller stands by; nobody leads now"
                        : absl::StrCat("this controller stands by; the leader is ", leader);
}

}  // namespace

Standby::Standby(std::optional<TlsFiles> identity)
    : identity_(std::move(identity)), metrics_(kVersion) {}

Standby::~Standby() {
  if (grpc_ != nullptr) {
    grpc_->Shutdown(absl::ToChronoTime(absl::Now()));
    grpc_->Wait();
  }
}

absl::StatusOr<std::unique_ptr<Standby>> Standby::Start(
    const std::string& listen, const std::string& http,
    const std::shared_ptr<grpc::ServerCredentials>& credentials, std::optional<HttpTls> http_tls,
    std::optional<TlsFiles> identity, absl::Duration handshake_patience) {
  std::unique_ptr<Standby> standby(new Standby(std::move(identity)));
  const absl::Status status =
      standby->Listen(listen, http, credentials, std::move(http_tls), handshake_patience);
  if (!status.ok()) return status;
  return standby;
}

absl::Status Standby::Listen(const std::string& listen, const std::string& http,
                             const std::shared_ptr<grpc::ServerCredentials>& credentials,
                             std::optional<HttpTls> http_tls, absl::Duration handshake_patience) {
  grpc::ServerBuilder builder;
  LimitClients(builder, handshake_patience);
  builder.RegisterCallbackGenericService(this);
  absl::StatusOr<GrpcPort> port = OpenGrpcPort(builder, listen, credentials);
  if (!port.ok()) return port.status();
  grpc_ = std::move(port->server);
  grpc_address_ = std::move(port->address);
  HttpServer::Routes routes = {
      {"/metrics",
       [this](const HttpServer::Query&) {
         metrics_.ShowCertificateEnd(CertificateEnd(identity_));
         return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics_.Text(0)};
       }},
      {"/healthz",
       [](const HttpServer::Query&) {
         return HttpResponse{200, "text/plain; charset=utf-8", "ok\n"};
       }},
      {"/readyz",
       [this](const HttpServer::Query&) {
         return HttpResponse{503, "text/plain; charset=utf-8", Describe(Leader()) + "\n"};
       }},
  };
  auto server = HttpServer::Start(http, std::move(routes), {}, {}, std::move(http_tls));
  if (!server.ok()) return server.status();
  http_ = *std::move(server);
  return absl::OkStatus();
}

void Standby::SetLeader(const std::string& leader) {
  absl::MutexLock lock(&mutex_);
  leader_ = leader;
}

std::string Standby::Leader() const {
  absl::MutexLock lock(&mutex_);
  return leader_;
}

grpc::ServerGenericBidiReactor* Standby::CreateReactor(
    grpc::GenericCallbackServerContext* /*context*/) {
  const std::string leader = Leader();
  std::map<std::string, std::string> metadata;
  if (!leader.empty()) metadata[kLeaderMetadata] = leader;
  return new Refused(
      MakeError(grpc::StatusCode::UNAVAILABLE, kNotLeaderReason, Describe(leader), metadata));
}

}  // namespace paceline
