// What clients ask of the controller, and what it refuses.
//
// Thread-safe.
#ifndef CONTROLLER_METRICS_RPC_METRICS_H_
#define CONTROLLER_METRICS_RPC_METRICS_H_

#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status_code_enum.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metric_registry.h"

namespace paceline {

// "InvalidArgument", as in grpc_code.
const char* RpcCodeLabel(grpc::StatusCode code);

// Calls, under the names that other servers' interceptors use (grpc_server_...). An interceptor
// counts calls when they begin and end, and times unary ones.
//
// Labels name methods that the program knows; any other name from a client counts as "unknown".
class RpcMetrics {
 public:
  using Type = grpc::experimental::ServerRpcInfo::Type;

  // The series of one method. Lives as long as the metrics.
  class Method;

  // `registry` outlives this.
  explicit RpcMetrics(MetricRegistry& registry);
  ~RpcMetrics();

  // For ServerBuilder; this outlives the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewInterceptors();

  // Counts the start of a call of "/package.Service/Method". Its end is to be reported to the
  // result.
  Method* Begin(const std::string& path, Type type) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(Method* method, grpc::StatusCode code, absl::Duration took);

 private:
  Counters& started_;
  Counters& handled_;
  Histograms handling_;

  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Method>> methods_ ABSL_GUARDED_BY(mutex_);  // By path.
};

// Why a call was not admitted.
enum class AccessRefusal {
  kNoIdentity,      // The method requires an identity.
  kBadCertificate,  // From the cluster's authority, but invalid or expired.
  kUnknownToken,
  kRevoked,
  kRole,  // The caller's role is too low, or of another kind.
  kUnknownMethod,
};

// "no_identity", the value of the label.
const char* AccessRefusalLabel(AccessRefusal refusal);

// Calls that are not admitted.
class AccessMetrics {
 public:
  // `registry` outlives this.
  explicit AccessMetrics(MetricRegistry& registry);

  void Refused(AccessRefusal refusal);

 private:
  std::array<prometheus::Counter*, 6> refusals_;  // Indexed by AccessRefusal.
};

enum class Limit {
  kCallRate,          // Calls of any kind, per caller.
  kMutationRate,      // Mutations, per caller.
  kStreamsPerCaller,  // Watches and logs.
  kStreams,
  kSlowReader,  // A watch, log or backup that nobody reads.
  kOpenJobs,
  kOpenJobsPerSubmitter,
  kJobSize,
  kCode,           // Code of jobs.
  kRequestSize,    // Other requests.
  kSessionHello,   // A worker's session sent no hello in time.
  kNodeSize,       // A hello of an impossible node.
  kSessions,       // Sessions per node's certificate.
  kWorkerMessage,  // Malformed, or too large.
  kWorkerRate,     // A worker that sends too much has to wait.
  kWorkerBacklog,  // A worker that does not read.
  kLogReaders,     // Log readers per node.
  kHttpConnections,
  kHttpStreams,
};

// "mutation_rate", the value of the label.
const char* LimitLabel(Limit limit);

// What the limits have refused or ended (docs/limits.md). This does not include what gRPC refuses
// by itself: messages and headers that are too long, failed handshakes, and streams of reflection
// beyond its threads.
class LimitMetrics {
 public:
  // `registry` outlives this.
  explicit LimitMetrics(MetricRegistry& registry);

  void Refused(Limit limit);

 private:
  std::array<prometheus::Counter*, 19> refusals_;  // Indexed by Limit.
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_RPC_METRICS_H_
