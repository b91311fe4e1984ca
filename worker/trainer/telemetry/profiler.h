// Traces of a few steps on request, in Chrome's format (Perfetto and chrome://tracing show it).
//
// The requests come from the control; the trace of a step, marked ProfilerStep#<step> as
// PyTorch's own does, holds the operators of the CPU and, with CUDA, the kernels. It is written by
// a thread of its own, since that takes longer than a step; the result, or why there is none, goes
// to the control.
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

// Thread-compatible. A profiler that fails is a result without a trace, not an error.
class Profiler {
 public:
  struct Options {
    std::string directory;  // Gets <request id>/rank<r>.trace.json; is made when needed.
    int rank = 0;
    bool cuda = false;
    // Numbers of steps are the job's, and each rank makes its own at its own pace (Slipstream): a
    // request that comes late is served with the next step.
    bool own_pace = false;
    // Begins to record allocations, or writes what was recorded to a file and stops.
    std::function<void()> start_memory;
    std::function<absl::Status(const std::string& path)> write_memory;
    std::function<void(const ProfileResult&)> on_result;  // Any thread.
  };

  explicit Profiler(Options options);
  // Waits for a trace that is being written.
  ~Profiler();

  // Before each step, with the newest request; a request is served once, from its first step on, or
  // from the next one where the numbers of steps leave a gap. One that comes later fails, unless
  // ranks step at their own pace.
  void BeforeStep(const ProfileRequest& request, int64_t step);
  // After each step.
  void AfterStep(int64_t step);
  // No step follows: a trace that runs ends here. Returns when it is written.
  void Finish();

  // The present step's times are not typical.
  bool active() const { return active_; }

 private:
  void Start(int64_t step);
  void MarkStep(int64_t step);
  void Stop();
  void Fail(const std::string& why);

  const Options options_;
  ProfileRequest request_;  // The latest one; id 0: none.
  bool waiting_ = false;    // It has not begun.
  bool active_ = false;
  int64_t first_step_ = 0;                    // Of the trace that runs,
  int64_t steps_ = 0;                         // and the steps in it.
  std::unique_ptr<at::RecordFunction> mark_;  // Of the present step.
  std::thread writer_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_PROFILER_H_
