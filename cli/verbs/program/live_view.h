// Text about things that change, kept up to date in place on a terminal.
//
// A thread of its own draws: soon after a change, at most five times a second, and once a second
// anyway, so that ages go on. The text is cut to the terminal's size. Text that was written to the
// terminal by others stays above it if it was announced by Say.
//
// Thread-safe.
#ifndef CLI_VERBS_PROGRAM_LIVE_VIEW_H_
#define CLI_VERBS_PROGRAM_LIVE_VIEW_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "cli/program.h"

namespace paceline {

// The first lines of `text`, at most `height` - 1 if `height` > 0, so that the cursor's line is
// left; the last one then tells how many are left out.
std::string CutToHeight(absl::string_view text, int height);

class LiveView {
 public:
  // Requires: program.redraws(). `render` returns whole lines; it is never called at the same time
  // as a change (below), and may read what changes write.
  LiveView(Program& program, std::function<std::string()> render);
  // Draws for the last time; the text stays.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  // Calls `change`, and draws soon.
  void Update(const std::function<void()>& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // A line for the error stream. What is drawn goes on below it.
  void Say(const std::string& line) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Program& program_;
  const std::function<std::string()> render_;

  absl::Mutex mutex_;
  bool changed_ ABSL_GUARDED_BY(mutex_) = true;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int drawn_lines_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string drawn_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // Last: uses all of the above.
};

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_LIVE_VIEW_H_
