// What clients ask of the controller, and what it refuses them.
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

// Calls, by the names that other servers' interceptors use (grpc_server_...): an interceptor counts
// them when they begin and end, and times unary ones.
//
// The labels are those of methods that the program knows; a name that a client made up counts as
// "unknown".
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

  // A call of "/package.Service/Method" has begun; what is returned is told of its end.
  Method* Begin(const std::string& path, Type type) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(Method* method, grpc::StatusCode code, absl::Duration took);

 private:
  Counters& started_;
  Counters& handled_;
  Histograms handling_;

  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Method>> methods_ ABSL_GUARDED_BY(mutex_);  // By path.
};

// What was missing.
enum class AccessRefusal {
  kNoIdentity,      // The method wants to know who asks.
  kBadCertificate,  // It is the cluster's, and names nobody or has ended.
  kUnknownToken,
  kRevoked,
  kRole,  // The caller's is too low, or another.
  kUnknownMethod,
};

// "no_identity", as in the label.
const char* AccessRefusalLabel(AccessRefusal refusal);

// Calls that are not let in.
class AccessMetrics {
 public:
  // `registry` outlives this.
  explicit AccessMetrics(MetricRegistry& registry);

  void Refused(AccessRefusal refusal);

 private:
  std::array<prometheus::Counter*, 6> refusals_;  // By AccessRefusal.
};

enum class Limit {
  kCallRate,          // Calls of any kind of one caller.
  kMutationRate,      // Changes of one caller.
  kStreamsPerCaller,  // Watches and logs.
  kStreams,
  kSlowReader,  // A watch, log or backup that nobody reads.
  kOpenJobs,
  kOpenJobsPerSubmitter,
  kJobSize,
  kCode,           // That travels with jobs.
  kRequestSize,    // Of another request.
  kSessionHello,   // A worker's session without a hello in time.
  kNodeSize,       // A hello of a node that cannot be.
  kSessions,       // Of one node's certificate.
  kWorkerMessage,  // That is no message, or too large.
  kWorkerRate,     // A worker that says too much: it has to wait.
  kWorkerBacklog,  // A worker that does not read.
  kLogReaders,     // Of one node.
  kHttpConnections,
  kHttpStreams,
};

// "mutation_rate", as in the label.
const char* LimitLabel(Limit limit);

// What the limits have refused, or ended (docs/limits.md). Not what gRPC refuses by itself:
// messages and headers that are too long, connections that do not begin, streams of reflection that
// there is no thread for.
class LimitMetrics {
 public:
  // `registry` outlives this.
  explicit LimitMetrics(MetricRegistry& registry);

  void Refused(Limit limit);

 private:
  std::array<prometheus::Counter*, 19> refusals_;  // By Limit.
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_RPC_METRICS_H_
