// Traces some steps on request, in Chrome's format (for Perfetto and chrome://tracing).
//
// The control delivers requests. The trace of a step, marked ProfilerStep#<step> as PyTorch's own,
// has the CPU's operators and, with CUDA, the kernels. A separate thread writes it, since that
// takes longer than a step. The control gets the result, or the reason why there is none.
#ifndef WORKER_TRAINER_TELEMETRY_PROFILER_H_
#define WORKER_TRAINER_TELEMETRY_PROFILER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "worker/trainer/config.h"
#include "worker/trainer/report/figures.h"

namespace at {
struct RecordFunction;
}  // namespace at

namespace paceline {

// Thread-compatible. A failure of the profiler gives a result without a trace, not an error.
class Profiler {
 public:
  struct Options {
    std::string directory;  // Gets <request id>/rank<r>.trace.json; created if needed.
    int rank = 0;
    bool cuda = false;
    // Step numbers are the job's and each rank has its own pace (Slipstream): a late request is
    // served at the next step.
    bool own_pace = false;
    // Begins to record allocations; the other one writes the record to a file and stops.
    std::function<void()> start_memory;
    std::function<absl::Status(const std::string& path)> write_memory;
    std::function<void(const ProfileResult&)> on_result;  // Any thread.
  };

  explicit Profiler(Options options);
  // Waits until a trace is written.
  ~Profiler();

  // Call before each step with the newest request. Each request is served once, from its first step
  // on, or from the next one if step numbers have a gap. A late request fails, unless `own_pace`.
  void BeforeStep(const ProfileRequest& request, int64_t step);
  // Call after each step.
  void AfterStep(int64_t step);
  // Call when no step follows: ends a running trace and returns when it is written.
  void Finish();

  // Whether a trace is running, so that the current step's times are not typical.
  bool active() const { return active_; }

 private:
  void Start(int64_t step);
  void MarkStep(int64_t step);
  void Stop();
  void Fail(const std::string& why);

  const Options options_;
  ProfileRequest request_;  // The latest; id 0: none.
  bool waiting_ = false;    // It has not begun yet.
  bool active_ = false;
  int64_t first_step_ = 0;                    // Of the running trace.
  int64_t steps_ = 0;                         // Steps in it so far.
  std::unique_ptr<at::RecordFunction> mark_;  // Of the current step.
  std::thread writer_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_PROFILER_H_
