#include "worker/daemon/session/join.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/leader_address.h"
#include "common/tls/credentials.h"
#include "common/tls/handshake_probe.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"
#include "proto/identity.grpc.pb.h"

namespace paceline {
namespace {

constexpr std::chrono::seconds kAttempt(5);

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, ReadPrivate(path));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (!token.empty()) return std::string(token);
  return absl::InvalidArgumentError(absl::StrCat(path, " holds no join token"));
}

std::string MarkFile(const JoinOptions& options) { return options.tls_dir + "/joined"; }

// Returns the key of an earlier attempt that got no certificate, or a new key. The key of a
// certificate is never used again: a node may be revoked because its key leaked.
absl::StatusOr<std::string> KeyOf(const JoinOptions& options) {
  const std::string pending = options.tls_dir + "/key.pem.joining";
  absl::StatusOr<std::string> kept = ReadPrivate(pending);
  if (kept.ok()) return kept;
  PACELINE_ASSIGN_OR_RETURN(std::string key, NewKey());
  PACELINE_RETURN_IF_ERROR(WritePrivate(pending, key));
  return key;
}

absl::Status Keep(const JoinOptions& options, const std::string& digest, const std::string& key,
                  const v1::JoinResponse& reply) {
  const TlsFiles files = FilesIn(options.tls_dir);
  PACELINE_RETURN_IF_ERROR(WritePublic(files.ca, reply.ca_pem()));
  PACELINE_RETURN_IF_ERROR(WritePrivate(files.key, key));
  PACELINE_RETURN_IF_ERROR(WritePublic(files.certificate, reply.certificate_pem()));
  PACELINE_RETURN_IF_ERROR(WritePublic(MarkFile(options), digest));
  return RemoveFile(options.tls_dir + "/key.pem.joining");
}

// Joins at one controller. Unavailable: try another controller, or later.
absl::Status JoinAt(const std::string& controller, const JoinOptions& options) {
  PACELINE_RETURN_IF_ERROR(CheckAuthorityFile(options.ca));
  PACELINE_ASSIGN_OR_RETURN(const std::string token, ReadToken(options.token_file));
  PACELINE_ASSIGN_OR_RETURN(const std::string key, KeyOf(options));
  v1::JoinRequest request;
  request.set_token(token);
  request.set_node(options.node);
  PACELINE_ASSIGN_OR_RETURN(*request.mutable_csr_pem(), MakeRequest(key, options.node));
  // The authority is known, so the token goes to a genuine controller only.
  const TlsFiles files = {options.ca, "", ""};
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = v1::IdentityService::NewStub(
      grpc::CreateCustomChannel(controller, ChannelCredentials(files), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAttempt);
  v1::JoinResponse reply;
  const grpc::Status status = stub->Join(&context, request, &reply);
  if (status.ok()) return Keep(options, Sha256Hex(token), key, reply);
  std::string why = status.error_message();
  auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    const std::string explained = ExplainConnection(controller, files, absl::Now());
    if (!explained.empty()) why = explained;
    code = absl::StatusCode::kUnavailable;
  }
  // Too many nodes join at once: try again later.
  if (code == absl::StatusCode::kResourceExhausted) code = absl::StatusCode::kUnavailable;
  return absl::Status(code, absl::StrCat("the node cannot join at ", controller, ": ", why));
}

}  // namespace

absl::StatusOr<bool> MustJoin(const JoinOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string token, ReadToken(options.token_file));
  const absl::StatusOr<std::string> joined = ReadWhole(MarkFile(options));
  return !joined.ok() || *joined != Sha256Hex(token);
}

absl::Status Join(const JoinOptions& options) {
  absl::Status status = absl::UnavailableError("no controller is named");
  for (const std::string& controller : SplitAddresses(options.controllers)) {
    status = JoinAt(controller, options);
    if (!absl::IsUnavailable(status)) break;
  }
  return status;
}

}  // namespace paceline
