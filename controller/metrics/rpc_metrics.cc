#include "controller/metrics/rpc_metrics.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"

namespace paceline {
namespace {

constexpr char kUnknown[] = "unknown";

const char* TypeLabel(RpcMetrics::Type type) {
  constexpr const char* kNames[] = {"unary", "client_stream", "server_stream", "bidi_stream"};
  return kNames[static_cast<int>(type)];
}

// gRPC's health service is served without a descriptor.
bool IsKnown(const std::string& service, const std::string& method) {
  if (service == "grpc.health.v1.Health") return method == "Check" || method == "Watch";
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
             absl::StrCat(service, ".", method)) != nullptr;
}

class CallCounter : public grpc::experimental::Interceptor {
 public:
  CallCounter(RpcMetrics* metrics, const grpc::experimental::ServerRpcInfo& info)
      : metrics_(metrics),
        begun_(EventLoop::Now()),
        method_(metrics->Begin(info.method(), info.type())) {}
  // A call that was never answered was given up by its client.
  ~CallCounter() override { End(grpc::StatusCode::CANCELLED); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      End(methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  void End(grpc::StatusCode code) {
    if (method_ == nullptr) return;
    metrics_->End(std::exchange(method_, nullptr), code, EventLoop::Now() - begun_);
  }

  RpcMetrics* const metrics_;
  const absl::Time begun_;
  RpcMetrics::Method* method_;  // Null once its end was counted.
};

class CallCounters : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCounters(RpcMetrics* metrics) : metrics_(metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CallCounter(metrics_, *info);
  }

 private:
  RpcMetrics* const metrics_;
};

}  // namespace

const char* RpcCodeLabel(grpc::StatusCode code) {
  constexpr const char* kNames[] = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "Unknown";
}

class RpcMetrics::Method {
 public:
  prometheus::Labels labels;
  prometheus::Counter* started = nullptr;
  prometheus::Histogram* handling = nullptr;  // For unary methods only.
};

RpcMetrics::RpcMetrics(MetricRegistry& registry)
    : started_(registry.NewCounters("grpc_server_started_total")),
      handled_(registry.NewCounters("grpc_server_handled_total")),
      handling_(registry.NewHistograms("grpc_server_handling_seconds")) {}

RpcMetrics::~RpcMetrics() = default;

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
RpcMetrics::NewInterceptors() {
  return std::make_unique<CallCounters>(this);
}

RpcMetrics::Method* RpcMetrics::Begin(const std::string& path, Type type) {
  const size_t slash = path.rfind('/');
  std::string service = slash == std::string::npos ? "" : path.substr(1, slash - 1);
  std::string method = slash == std::string::npos ? path : path.substr(slash + 1);
  absl::MutexLock lock(&mutex_);
  auto found = methods_.find(path);
  if (found == methods_.end()) {
    if (!IsKnown(service, method)) {
      service = method = kUnknown;
      found = methods_.find(kUnknown);
    }
    if (found == methods_.end()) {
      found =
          methods_.emplace(service == kUnknown ? kUnknown : path, std::make_unique<Method>()).first;
      Method& added = *found->second;
      added.labels = {
          {"grpc_service", service}, {"grpc_method", method}, {"grpc_type", TypeLabel(type)}};
      added.started = &started_.Add(added.labels);
      if (type == Type::UNARY) added.handling = &handling_.Add(added.labels);
    }
  }
  found->second->started->Increment();
  return found->second.get();
}

void RpcMetrics::End(Method* method, grpc::StatusCode code, absl::Duration took) {
  prometheus::Labels labels = method->labels;
  labels["grpc_code"] = RpcCodeLabel(code);
  handled_.Add(labels).Increment();
  if (method->handling != nullptr) method->handling->Observe(absl::ToDoubleSeconds(took));
}

const char* AccessRefusalLabel(AccessRefusal refusal) {
  constexpr const char* kNames[] = {"no_identity", "bad_certificate", "unknown_token", "revoked",
                                    "role",        "unknown_method"};
  return kNames[static_cast<size_t>(refusal)];
}

AccessMetrics::AccessMetrics(MetricRegistry& registry) {
  Counters& family = registry.NewCounters("paceline_access_refusals_total");
  for (size_t i = 0; i < refusals_.size(); ++i) {
    refusals_[i] = &family.Add({{"reason", AccessRefusalLabel(static_cast<AccessRefusal>(i))}});
  }
}

void AccessMetrics::Refused(AccessRefusal refusal) {
  refusals_[static_cast<size_t>(refusal)]->Increment();
}

const char* LimitLabel(Limit limit) {
  constexpr const char* kNames[] = {"call_rate",
                                    "mutation_rate",
                                    "streams_per_caller",
                                    "streams",
                                    "slow_reader",
                                    "open_jobs",
                                    "open_jobs_per_submitter",
                                    "job_size",
                                    "code",
                                    "request_size",
                                    "session_hello",
                                    "node_size",
                                    "sessions",
                                    "worker_message",
                                    "worker_rate",
                                    "worker_backlog",
                                    "log_readers",
                                    "http_connections",
                                    "http_streams"};
  return kNames[static_cast<size_t>(limit)];
}

LimitMetrics::LimitMetrics(MetricRegistry& registry) {
  Counters& family = registry.NewCounters("paceline_limit_refusals_total");
  for (size_t i = 0; i < refusals_.size(); ++i) {
    refusals_[i] = &family.Add({{"limit", LimitLabel(static_cast<Limit>(i))}});
  }
}

void LimitMetrics::Refused(Limit limit) { refusals_[static_cast<size_t>(limit)]->Increment(); }

}  // namespace paceline
