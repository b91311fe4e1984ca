// Text about changing things, kept up to date in place on a terminal.
//
// A separate thread draws: soon after a change, at most five times a second, and at least once a
// second, so that ages advance. The text is cut to the terminal's size. Text that others write to
// the terminal stays above it if it was announced by Say.
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

// Returns the first lines of `text`, at most `height` - 1 if `height` > 0, so that there is room
// for the cursor's line; the last one then says how many are left out.
std::string CutToHeight(absl::string_view text, int height);

class LiveView {
 public:
  // Requires: program.redraws(). `render` returns complete lines; it never runs at the same time as
  // a change (below), so it may read what changes write.
  LiveView(Program& program, std::function<std::string()> render);
  // Draws once more; the text stays.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  // Calls `change`, and draws soon.
  void Update(const std::function<void()>& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // Writes a line to the error stream; the drawing continues below it.
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
