// Limits what clients may ask of the controller at once: the rate of calls and of mutations, the
// number of streams, the size of requests, and how long a stream's reader may keep it waiting.
//
//   call     ──▶ AdmitCall ──────▶ the handler       refused: RESOURCE_EXHAUSTED (access.h)
//   mutation ──▶ AdmitMutation ──▶ the loop          refused: RESOURCE_EXHAUSTED, TOO_MANY_REQUESTS
//   watch    ──▶ OpenStream ─────▶ LoopWriter        refused: RESOURCE_EXHAUSTED, TOO_MANY_STREAMS
//
// Mutations and streams are also refused if their request is too large (CheckRequestLimits); a
// stream's request is kept while the stream is open. A backup does not count as a stream (there is
// one at a time, see backup.h), but the patience applies to it.
//
// A caller is identified by its certificate or token, or otherwise by its host. Anonymous callers
// have separate buckets, so that they cannot use up those of others. Calls of any kind are counted
// only for named callers, because the host is not known there.
//
// Thread-safe: called on gRPC's threads, so that a flood of calls does not reach the loop.
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

// Describing this many ranks takes 0.1 ms and is charged as one call.
inline constexpr int kPartsOfCall = 50;

class CallLimits {
 public:
  // An open stream, counted until it is destroyed; or the refusal of one.
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

  // Admits a call of any kind at time `now` (of EventLoop); an error means too many calls.
  // Requires: the caller has a role.
  grpc::Status AdmitCall(const Principal& caller, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Charges an admitted call for the parts (mostly ranks) that it had to describe: kPartsOfCall
  // parts count as one call, so that a caller cannot ask for large jobs as often as for small ones.
  void Charge(const Principal& caller, int parts, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns false, and finishes the call, if there are too many or the request is too large.
  bool AdmitMutation(const grpc::CallbackServerContext& context,
                     const google::protobuf::Message& request, grpc::ServerUnaryReactor* reactor);

  // This outlives the stream.
  std::unique_ptr<Stream> OpenStream(grpc::CallbackServerContext* context,
                                     const google::protobuf::Message& request);

  // Ends a call with CANCELLED because its reader has not taken a message within the stream
  // patience, even while that message waits. Requires: the call has not been finished.
  void AbortSlowReader(grpc::CallbackServerContext* context) const;

  const CallLimitOptions& options() const { return options_; }

 private:
  // CheckRequestLimits, with refusals counted.
  grpc::Status CheckSize(const google::protobuf::Message& request);
  // Counts one more stream of the caller, or returns the refusal.
  grpc::Status CountStream(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const std::string& caller);

  const CallLimitOptions options_;
  LimitMetrics* const metrics_;
  mutable absl::Mutex mutex_;
  RateLimit calls_ ABSL_GUARDED_BY(mutex_);
  RateLimit mutations_ ABSL_GUARDED_BY(mutex_);
  RateLimit strangers_ ABSL_GUARDED_BY(mutex_);  // For callers without a role, which join.
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> by_caller_ ABSL_GUARDED_BY(mutex_);  // Open streams; never 0.
};

// "submitter alice", from a certificate or token (only TLS proves it); else the host without the
// port, "ipv4:10.0.0.7".
std::string CallerKey(const grpc::CallbackServerContext& context);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_CALL_LIMITS_H_
