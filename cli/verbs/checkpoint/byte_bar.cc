#include "cli/verbs/checkpoint/byte_bar.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/sanitize.h"
#include "cli/view/job/progress_line.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr int kCells = 30;
constexpr int kDefaultWidth = 80;

}  // namespace

ByteBar::ByteBar(Program& program, std::string verb)
    : program_(program),
      verb_(std::move(verb)),
      enabled_(program.out_is_terminal() && !program.json() && !program.flags.quiet),
      start_(absl::Now()) {}

ByteBar::~ByteBar() {
  if (last_ != absl::InfinitePast()) program_.out() << "\r\x1b[K" << std::flush;
}

void ByteBar::Show(int64_t done, int64_t all) {
  const absl::Time now = absl::Now();
  if (!enabled_ || now < last_ + kInterval) return;
  last_ = now;
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  const double seconds = std::max(1e-3, absl::ToDoubleSeconds(now - start_));
  const auto rate = static_cast<int64_t>(static_cast<double>(done) / seconds);
  const int width = program_.style().width;
  program_.out() << "\r"
                 << Shortened(
                        absl::StrCat(verb_, "  ", BarText(share, kCells), "  ", BytesText(done),
                                     " of ", BytesText(all), "  ", BytesText(rate), "/s"),
                        (width > 0 ? width : kDefaultWidth) - 1)
                 << "\x1b[K" << std::flush;
}

}  // namespace paceline
