#include "cli/top/top_view.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "cli/view/job/job_text.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

constexpr char kCtrlL = 0x0c;
constexpr char kCtrlZ = 0x1a;
constexpr size_t kLongestFilter = 60;

bool Holds(absl::string_view text, const std::string& filter) {
  return absl::StrContains(absl::AsciiStrToLower(text), absl::AsciiStrToLower(filter));
}

bool Matches(const v1::Job& job, const std::string& filter) {
  if (filter.empty() || Holds(job.id(), filter) || Holds(job.spec().name(), filter) ||
      Holds(StateText(job.state()), filter)) {
    return true;
  }
  return std::any_of(job.ranks().begin(), job.ranks().end(),
                     [&](const v1::Rank& rank) { return Holds(rank.node(), filter); });
}

// NaN and infinities would break sorting.
double Sortable(double value) { return std::isfinite(value) ? value : 0; }

// Sort key of a job; the greatest comes first.
double WorthOf(const TopModel& model, const v1::Job& job, JobOrder order) {
  switch (order) {
    case JobOrder::kStepTime:
      return StepSeconds(model, job);
    case JobOrder::kRate:
      return std::max(job.progress().tokens_per_s(), job.progress().samples_per_s());
    case JobOrder::kMfu:
      return job.progress().mfu();
    default:
      return 0;
  }
}

double WorthOf(const v1::RankTelemetry& rank, RankOrder order) {
  switch (order) {
    case RankOrder::kSlowest:
      return rank.own_s() > 0 ? rank.own_s() : rank.step_s();
    case RankOrder::kWait:
      return rank.wait_share();
    case RankOrder::kMemory:
      return static_cast<double>(std::max(rank.device_bytes(), rank.host_bytes()));
    case RankOrder::kMfu:
      return rank.mfu();
    case RankOrder::kRank:
      return 0;
  }
  return 0;
}

template <typename Order>
Order Next(Order order, Order last) {
  return order == last ? Order() : static_cast<Order>(static_cast<int>(order) + 1);
}

void MoveTo(int place, const TopModel& model, TopView& view) {
  if (!view.job.empty()) {
    const int ranks = static_cast<int>(ShownRanks(model, view).size());
    view.first = std::clamp(place, 0, std::max(0, ranks - 1));
    return;
  }
  const auto jobs = ShownJobs(model, view);
  if (jobs.empty()) return;
  const int last = static_cast<int>(jobs.size()) - 1;
  view.cursor = jobs[static_cast<size_t>(std::clamp(place, 0, last))]->id();
}

int PlaceOf(const TopModel& model, const TopView& view) {
  return view.job.empty() ? CursorPlace(ShownJobs(model, view), view) : view.first;
}

TopAction TakeTyped(const KeyPress& press, TopView& view) {
  switch (press.key) {
    case Key::kEnter:
      view.typing = false;
      break;
    case Key::kEscape:
      view.typing = false;
      view.filter.clear();
      break;
    case Key::kBackspace:
      if (!view.filter.empty()) view.filter.pop_back();
      break;
    case Key::kCharacter:
      if (absl::ascii_isprint(static_cast<unsigned char>(press.character)) &&
          view.filter.size() < kLongestFilter) {
        view.filter += press.character;
      }
      break;
    default:
      break;
  }
  view.first = 0;
  return TopAction::kNone;
}

// Goes back from a job to all jobs; there it removes the filter.
TopAction GoBack(TopView& view) {
  if (view.job.empty() || view.only) {
    // This is the first screen, and nothing is left to remove: nowhere to go back to.
    if (view.only && view.filter.empty()) return TopAction::kQuit;
    view.filter.clear();
    return TopAction::kNone;
  }
  view.cursor = view.job;
  view.job.clear();
  view.first = 0;
  view.filter.clear();
  return TopAction::kFetch;
}

TopAction TakeCharacter(char character, TopView& view) {
  switch (character) {
    case 'q':
    case 'Q':
      return TopAction::kQuit;
    case 's':
      if (view.job.empty()) {
        view.job_order = Next(view.job_order, JobOrder::kMfu);
      } else {
        view.rank_order = Next(view.rank_order, RankOrder::kMfu);
      }
      view.first = 0;
      return TopAction::kNone;
    case 'r':
      view.reversed = !view.reversed;
      return TopAction::kNone;
    case '/':
      view.typing = true;
      return TopAction::kNone;
    case 'a':
      view.ended = !view.ended;
      return TopAction::kFetch;
    case 'h':
    case '?':
      view.help = true;
      return TopAction::kNone;
    case ' ':
    case kCtrlL:
      return TopAction::kFetch;
    case kCtrlZ:
      return TopAction::kSuspend;
    default:
      return TopAction::kNone;
  }
}

// Some letters stand for other keys.
Key MeaningOf(const KeyPress& press) {
  if (press.key != Key::kCharacter) return press.key;
  if (press.character == 'j') return Key::kDown;
  return press.character == 'k' ? Key::kUp : Key::kCharacter;
}

}  // namespace

std::vector<KeyPress> ReadKeys(absl::string_view bytes) {
  struct Sequence {
    absl::string_view bytes;
    Key key;
  };
  constexpr Sequence kSequences[] = {
      {"\x1b[A", Key::kUp},    {"\x1bOA", Key::kUp},      {"\x1b[B", Key::kDown},
      {"\x1bOB", Key::kDown},  {"\x1b[5~", Key::kPageUp}, {"\x1b[6~", Key::kPageDown},
      {"\x1b[H", Key::kHome},  {"\x1bOH", Key::kHome},    {"\x1b[1~", Key::kHome},
      {"\x1b[F", Key::kEnd},   {"\x1bOF", Key::kEnd},     {"\x1b[4~", Key::kEnd},
      {"\r", Key::kEnter},     {"\n", Key::kEnter},       {"\x7f", Key::kBackspace},
      {"\b", Key::kBackspace},
  };
  std::vector<KeyPress> presses;
  while (!bytes.empty()) {
    const auto* const known = std::find_if(
        std::begin(kSequences), std::end(kSequences),
        [&](const Sequence& sequence) { return absl::StartsWith(bytes, sequence.bytes); });
    if (known != std::end(kSequences)) {
      presses.push_back({known->key});
      bytes.remove_prefix(known->bytes.size());
    } else if (bytes[0] != '\x1b') {
      presses.push_back({Key::kCharacter, bytes[0]});
      bytes.remove_prefix(1);
    } else if (bytes.size() == 1 || (bytes[1] != '[' && bytes[1] != 'O')) {
      presses.push_back({Key::kEscape});
      bytes.remove_prefix(1);
    } else {  // Skips an unknown sequence up to its last byte.
      size_t end = 2;
      while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
  }
  return presses;
}

TopAction TakeKey(const KeyPress& press, const TopModel& model, int page, TopView& view) {
  if (view.help) {
    view.help = false;
    return press.key == Key::kCharacter && press.character == 'q' ? TopAction::kQuit
                                                                  : TopAction::kNone;
  }
  if (view.typing) return TakeTyped(press, view);
  const int place = PlaceOf(model, view);
  switch (MeaningOf(press)) {
    case Key::kCharacter:
      return TakeCharacter(press.character, view);
    case Key::kUp:
      MoveTo(place - 1, model, view);
      break;
    case Key::kDown:
      MoveTo(place + 1, model, view);
      break;
    case Key::kPageUp:
      MoveTo(place - std::max(1, page), model, view);
      break;
    case Key::kPageDown:
      MoveTo(place + std::max(1, page), model, view);
      break;
    case Key::kHome:
      MoveTo(0, model, view);
      break;
    case Key::kEnd:
      MoveTo(1 << 30, model, view);
      break;
    case Key::kEnter: {
      const auto jobs = ShownJobs(model, view);
      if (!view.job.empty() || jobs.empty()) break;
      view.job = jobs[static_cast<size_t>(CursorPlace(jobs, view))]->id();
      view.first = 0;
      view.filter.clear();
      return TopAction::kFetch;
    }
    case Key::kEscape:
    case Key::kBackspace:
      return GoBack(view);
  }
  return TopAction::kNone;
}

std::vector<const v1::Job*> ShownJobs(const TopModel& model, const TopView& view) {
  std::vector<const v1::Job*> jobs;
  for (const v1::Job& job : model.jobs) {
    if (!view.ended && HasEnded(job.state())) continue;
    if (Matches(job, view.filter)) jobs.push_back(&job);
  }
  std::stable_sort(jobs.begin(), jobs.end(), [&](const v1::Job* a, const v1::Job* b) {
    if (view.job_order == JobOrder::kName) return a->spec().name() < b->spec().name();
    return Sortable(WorthOf(model, *a, view.job_order)) >
           Sortable(WorthOf(model, *b, view.job_order));
  });
  if (view.reversed) std::reverse(jobs.begin(), jobs.end());
  return jobs;
}

std::vector<const v1::RankTelemetry*> ShownRanks(const TopModel& model, const TopView& view) {
  std::vector<const v1::RankTelemetry*> ranks;
  if (model.ranks.job_id() != view.job) return ranks;  // The ranks are still those of another job.
  for (const v1::RankTelemetry& rank : model.ranks.ranks()) {
    if (view.filter.empty() || Holds(rank.node(), view.filter) ||
        Holds(PhaseText(rank.phase()), view.filter) ||
        Holds(StateText(rank.state()), view.filter)) {
      ranks.push_back(&rank);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](const v1::RankTelemetry* a, const v1::RankTelemetry* b) {
                     const double left = Sortable(WorthOf(*a, view.rank_order));
                     const double right = Sortable(WorthOf(*b, view.rank_order));
                     return left == right ? a->rank() < b->rank() : left > right;
                   });
  if (view.reversed) std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

int CursorPlace(const std::vector<const v1::Job*>& jobs, const TopView& view) {
  const auto at = std::find_if(jobs.begin(), jobs.end(),
                               [&](const v1::Job* job) { return job->id() == view.cursor; });
  return at == jobs.end() ? 0 : static_cast<int>(at - jobs.begin());
}

const char* NameOf(JobOrder order) {
  constexpr const char* kNames[] = {"newest", "name", "step time", "rate", "MFU"};
  return kNames[static_cast<int>(order)];
}

const char* NameOf(RankOrder order) {
  constexpr const char* kNames[] = {"rank", "slowest", "wait", "memory", "MFU"};
  return kNames[static_cast<int>(order)];
}

}  // namespace paceline
