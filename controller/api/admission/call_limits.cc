#include "controller/api/admission/call_limits.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"
#include "controller/api/admission/caller.h"
#include "controller/api/admission/request_limits.h"
#include "controller/metrics/rpc_metrics.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// All named callers of the last moment are remembered: names come from the authority and the token
// file, and in a large cluster no worker is to wait for another.
constexpr size_t kMaxNamedCallers = 65536;

// `what` names what there are too many of: "changes". The message names the caller to itself only.
grpc::Status TooManyRequests(const std::string& caller, double rate, const char* what,
                             absl::Duration wait) {
  return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS",
                   absl::StrCat(caller, " asks for more than ", rate, " ", what,
                                " a second: try again in ", absl::FormatDuration(wait)),
                   {{"retry_after_s", absl::StrCat(absl::ToDoubleSeconds(wait))}});
}

// Without TLS a caller can take any name (CallerByWord).
bool IsOverTls(const grpc::AuthContext& peer) {
  for (const grpc::string_ref& type :
       peer.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME)) {
    if (type == GRPC_TLS_TRANSPORT_SECURITY_TYPE || type == GRPC_SSL_TRANSPORT_SECURITY_TYPE) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string CallerKey(const grpc::CallbackServerContext& context) {
  const Principal caller = CallerOf(context);
  if (!caller.name.empty() && IsOverTls(*context.auth_context())) {
    return PrincipalText(caller);
  }
  const std::string peer = context.peer();
  return peer.substr(0, peer.rfind(':'));
}

CallLimits::CallLimits(const CallLimitOptions& options, LimitMetrics* metrics)
    : options_(options),
      metrics_(metrics),
      calls_({options.calls_per_s, std::max(1.0, options.call_burst), kMaxNamedCallers}),
      mutations_({options.mutations_per_s, std::max(1.0, options.mutation_burst)}),
      strangers_({options.mutations_per_s, std::max(1.0, options.mutation_burst)}) {}

grpc::Status CallLimits::AdmitCall(const Principal& caller, absl::Time now) {
  const std::string name = PrincipalText(caller);
  absl::Duration wait;
  {
    absl::MutexLock lock(&mutex_);
    wait = calls_.Take(name, now);
  }
  if (wait == absl::ZeroDuration()) return grpc::Status::OK;
  metrics_->Refused(Limit::kCallRate);
  return TooManyRequests(name, options_.calls_per_s, "calls", wait);
}

void CallLimits::Charge(const Principal& caller, int parts, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  calls_.Charge(PrincipalText(caller), static_cast<double>(parts) / kPartsOfCall, now);
}

bool CallLimits::AdmitMutation(const grpc::CallbackServerContext& context,
                               const google::protobuf::Message& request,
                               grpc::ServerUnaryReactor* reactor) {
  const std::string caller = CallerKey(context);
  const bool known = CallerOf(context).role != Role::kNone;
  absl::Duration wait;
  {
    absl::MutexLock lock(&mutex_);
    wait = (known ? mutations_ : strangers_).Take(caller, EventLoop::Now());
  }
  if (wait > absl::ZeroDuration()) {
    metrics_->Refused(Limit::kMutationRate);
    reactor->Finish(TooManyRequests(caller, options_.mutations_per_s, "changes", wait));
    return false;
  }
  const grpc::Status size = CheckSize(request);
  if (!size.ok()) reactor->Finish(size);
  return size.ok();
}

grpc::Status CallLimits::CheckSize(const google::protobuf::Message& request) {
  grpc::Status status = CheckRequestLimits(request);
  if (!status.ok()) metrics_->Refused(Limit::kRequestSize);
  return status;
}

std::unique_ptr<CallLimits::Stream> CallLimits::OpenStream(
    grpc::CallbackServerContext* context, const google::protobuf::Message& request) {
  std::string caller = CallerKey(*context);
  grpc::Status refusal = CheckSize(request);
  if (refusal.ok()) refusal = CountStream(caller);
  return std::unique_ptr<Stream>(new Stream(this, context, std::move(caller), std::move(refusal)));
}

grpc::Status CallLimits::CountStream(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  const auto known = by_caller_.find(caller);
  const int of_caller = known == by_caller_.end() ? 0 : known->second;
  if (of_caller >= options_.streams_per_caller) {
    metrics_->Refused(Limit::kStreamsPerCaller);
    return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
                     absl::StrCat(caller, " has ", of_caller,
                                  " watches and logs open already: end some of them"));
  }
  if (streams_ >= options_.streams) {
    metrics_->Refused(Limit::kStreams);
    return MakeError(
        grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
        absl::StrCat("the controller has ", streams_, " watches and logs open: try again later"));
  }
  ++streams_;
  ++by_caller_[caller];
  return grpc::Status::OK;
}

CallLimits::Stream::~Stream() {
  if (refusal_.ok()) limits_->Close(caller_);
}

void CallLimits::AbortSlowReader(grpc::CallbackServerContext* context) const {
  metrics_->Refused(Limit::kSlowReader);
  context->TryCancel();
}

void CallLimits::Close(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  --streams_;
  const auto known = by_caller_.find(caller);
  if (--known->second == 0) by_caller_.erase(known);
}

}  // namespace paceline
