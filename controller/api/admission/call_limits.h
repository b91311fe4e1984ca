// What clients may ask of the controller at once: calls of any kind and mutations by a rate,
// streams by their number, both by their size, and how long a stream's reader may keep it waiting.
//
//   call     ──▶ AdmitCall ──────▶ the handler       refused: RESOURCE_EXHAUSTED (access.h)
//   mutation ──▶ AdmitMutation ──▶ the loop          refused: RESOURCE_EXHAUSTED, TOO_MANY_REQUESTS
//   watch    ──▶ OpenStream ─────▶ LoopWriter        refused: RESOURCE_EXHAUSTED, TOO_MANY_STREAMS
//
// Mutations and streams whose request is too large are refused too: CheckRequestLimits. What a
// stream was asked for is kept as long as it is open.
// A backup, of which there is one at a time (backup.h), is no such stream, but for the patience.
//
// A caller is who its certificate or token says, and without one the host that it calls from. Those
// whom nobody knows have buckets of their own: they cannot use up the others'. Where calls of any
// kind are counted no host is known, so those are of callers with a name alone.
//
// Thread-safe: it is asked on gRPC's threads, so that a flood of calls does not reach the loop.
#ifndef CONTROLLER_API_ADMISSION_CALL_LIMITS_H_
#define CONTROLLER_API_ADMISSION_CALL_LIMITS_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "controller/api/admission/call_limit_options.h"
#include "controller/core/requests/rate_limit.h"

namespace paceline {

class LimitMetrics;

// Describing so many ranks, which takes 0.1 ms, is charged as a call.
inline constexpr int kPartsOfCall = 50;

class CallLimits {
 public:
  // One open stream, counted until it is destroyed; or the refusal of one.
  class Stream {
   public:
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    const grpc::Status& refusal() const { return refusal_; }
    // CallerKey of this call.
    const std::string& caller() const { return caller_; }
    absl::Duration patience() const { return limits_->options_.stream_patience; }
    // AbortSlowReader of this call.
    void Abort() const { limits_->AbortSlowReader(context_); }

   private:
    friend class CallLimits;
    Stream(CallLimits* limits, grpc::CallbackServerContext* context, std::string caller,
           grpc::Status refusal)
        : limits_(limits),
          context_(context),
          caller_(std::move(caller)),
          refusal_(std::move(refusal)) {}

    CallLimits* const limits_;
    grpc::CallbackServerContext* const context_;
    const std::string caller_;
    const grpc::Status refusal_;
  };

  // `metrics` outlives this.
  CallLimits(const CallLimitOptions& options, LimitMetrics* metrics);

  // A call of any kind at `now` of EventLoop. Requires: the caller has a role. Not OK: too many.
  grpc::Status AdmitCall(const Principal& caller, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // A call that was admitted had so many parts to describe: ranks, for most. Many of them are as
  // many calls (kPartsOfCall), so that a caller cannot ask for large jobs as often as for small
  // ones.
  void Charge(const Principal& caller, int parts, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // False: too many, or the request is too large; the call is finished.
  bool AdmitMutation(const grpc::CallbackServerContext& context,
                     const google::protobuf::Message& request, grpc::ServerUnaryReactor* reactor);

  // This outlives the stream.
  std::unique_ptr<Stream> OpenStream(grpc::CallbackServerContext* context,
                                     const google::protobuf::Message& request);

  // Ends the call, CANCELLED, whose reader has not taken a message within the patience of a stream,
  // also while the message waits. Requires: the call has not been finished.
  void AbortSlowReader(grpc::CallbackServerContext* context) const;

  const CallLimitOptions& options() const { return options_; }

 private:
  // CheckRequestLimits, counted.
  grpc::Status CheckSize(const google::protobuf::Message& request);
  // OK: the caller has one stream more.
  grpc::Status CountStream(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const std::string& caller);

  const CallLimitOptions options_;
  LimitMetrics* const metrics_;
  mutable absl::Mutex mutex_;
  RateLimit calls_ ABSL_GUARDED_BY(mutex_);
  RateLimit mutations_ ABSL_GUARDED_BY(mutex_);
  RateLimit strangers_ ABSL_GUARDED_BY(mutex_);  // The same of those without a role, who join.
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> by_caller_ ABSL_GUARDED_BY(mutex_);  // Streams; none has 0.
};

// "submitter alice" of a certificate or token, which TLS alone proves; else "ipv4:10.0.0.7",
// without the port.
std::string CallerKey(const grpc::CallbackServerContext& context);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_CALL_LIMITS_H_
