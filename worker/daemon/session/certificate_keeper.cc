#include "worker/daemon/session/certificate_keeper.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/leader_address.h"
#include "common/log.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/handshake_probe.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "proto/identity.grpc.pb.h"

namespace paceline {
namespace {

constexpr std::chrono::seconds kAttempt(5);

}  // namespace

absl::Duration FirstRenewal(absl::Duration life, double fraction) {
  return fraction * std::min(life / 10, absl::Minutes(1));
}

absl::Duration NextRenewal(absl::Duration life) { return life * 2 / 3; }

absl::Duration RenewalRetry(absl::Duration life) {
  return std::clamp(life / 50, absl::Seconds(1), absl::Minutes(10));
}

absl::Status RenewCertificate(const std::string& controller, const TlsFiles& files,
                              const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  PACELINE_ASSIGN_OR_RETURN(const std::string key, ReadPrivate(files.key));
  PACELINE_ASSIGN_OR_RETURN(const std::string own, ReadWhole(files.certificate));
  PACELINE_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(own));
  v1::RenewRequest request;
  PACELINE_ASSIGN_OR_RETURN(*request.mutable_csr_pem(),
                            MakeRequest(key, certificate.principal.name));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub =
      v1::IdentityService::NewStub(grpc::CreateCustomChannel(controller, credentials, arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAttempt);
  v1::RenewResponse reply;
  const grpc::Status status = stub->Renew(&context, request, &reply);
  if (!status.ok()) {
    auto code = static_cast<absl::StatusCode>(status.error_code());
    if (code == absl::StatusCode::kDeadlineExceeded) code = absl::StatusCode::kUnavailable;
    return absl::Status(code, status.error_message());
  }
  PACELINE_RETURN_IF_ERROR(ReadCertificate(reply.certificate_pem()).status());
  return WritePublic(files.certificate, reply.certificate_pem());
}

CertificateKeeper::CertificateKeeper(EventLoop& loop, Options options)
    : loop_(loop), options_(std::move(options)), random_(options_.seed), threads_(loop) {}

void CertificateKeeper::Start() {
  if (!options_.files.has_value()) return;
  RenewAfter(FirstRenewal(Life(), std::uniform_real_distribution<double>(0.0, 1.0)(random_)));
}

void CertificateKeeper::Explain() {
  if (explaining_) return;
  explaining_ = true;
  const auto why = std::make_shared<std::string>();
  threads_.Run(
      [why, options = options_](const std::atomic<bool>&) {
        for (const std::string& controller : SplitAddresses(options.controllers)) {
          if (!why->empty()) break;
          *why = ExplainConnection(controller, options.files, absl::Now());
        }
      },
      [this, why] {
        explaining_ = false;
        if (why->empty()) return;
        PACELINE_LOG(ERROR) << "controller_not_trusted address=" << options_.controllers
                            << " reason=\"" << *why << "\"";
      });
}

void CertificateKeeper::RenewAfter(absl::Duration delay) {
  loop_.After(delay, [this] { Renew(); });
}

void CertificateKeeper::Renew() {
  const auto result = std::make_shared<absl::Status>();
  threads_.Run(
      [result, options = options_](const std::atomic<bool>&) {
        *result = absl::UnavailableError("no controller is named");
        for (const std::string& controller : SplitAddresses(options.controllers)) {
          *result = RenewCertificate(controller, *options.files, options.credentials);
          if (!absl::IsUnavailable(*result)) break;
        }
      },
      [this, result] {
        if (result->ok()) {
          PACELINE_LOG(INFO) << "certificate_renewed life=" << absl::FormatDuration(Life());
          return RenewAfter(NextRenewal(Life()));
        }
        PACELINE_LOG(WARNING) << "certificate_not_renewed reason=\"" << result->message()
                              << "\", trying again in "
                              << absl::FormatDuration(RenewalRetry(Life()));
        RenewAfter(RenewalRetry(Life()));
      });
}

absl::Duration CertificateKeeper::Life() const {
  const absl::StatusOr<std::string> pem = ReadWhole(options_.files->certificate);
  const absl::StatusOr<Certificate> own =
      pem.ok() ? ReadCertificate(*pem) : absl::StatusOr<Certificate>(pem.status());
  return own.ok() ? own->not_after - own->issued() : kWorkerLife;
}

}  // namespace paceline
