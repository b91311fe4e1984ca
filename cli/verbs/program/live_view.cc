#include "cli/verbs/program/live_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace paceline {
namespace {

constexpr absl::Duration kLeastInterval = absl::Milliseconds(200);
constexpr absl::Duration kMostInterval = absl::Seconds(1);

}  // namespace

std::string CutToHeight(absl::string_view text, int height) {
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  if (height <= 0 || lines < height) return std::string(text);
  const int kept = std::max(0, height - 2);
  size_t end = 0;
  for (int i = 0; i < kept; ++i) end = text.find('\n', end) + 1;
  return absl::StrCat(text.substr(0, end), "... ", lines - kept, " more lines\n");
}

LiveView::LiveView(Program& program, std::function<std::string()> render)
    : program_(program), render_(std::move(render)), thread_([this] { Run(); }) {}

LiveView::~LiveView() {
  {
    const absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
  const absl::MutexLock lock(&mutex_);
  Draw();
}

void LiveView::Update(const std::function<void()>& change) {
  const absl::MutexLock lock(&mutex_);
  change();
  changed_ = true;
}

void LiveView::Say(const std::string& line) {
  const absl::MutexLock lock(&mutex_);
  Draw();
  program_.Note(line);
  drawn_lines_ = 0;
  drawn_.clear();
}

void LiveView::Run() {
  const absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changed_ || stop_; };
  while (!stop_) {
    changed_ = false;
    Draw();
    mutex_.AwaitWithTimeout(absl::Condition(&stop_), kLeastInterval);
    mutex_.AwaitWithTimeout(absl::Condition(&due), kMostInterval - kLeastInterval);
  }
}

void LiveView::Draw() {
  const std::string text = CutToHeight(render_(), program_.height());
  if (text == drawn_) return;
  // Line wrapping is off, so that each line takes one row.
  const std::string up = drawn_lines_ == 0 ? "" : absl::StrCat("\x1b[", drawn_lines_, "A");
  program_.out() << absl::StrCat(up, "\r\x1b[J\x1b[?7l", text, "\x1b[?7h") << std::flush;
  drawn_lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  drawn_ = text;
}

}  // namespace paceline
