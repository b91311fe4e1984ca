// What the keys of `paceline top` have chosen: which job, in which order, what is filtered.
//
// Pure: a key and what is shown give the next view.
#ifndef CLI_TOP_TOP_VIEW_H_
#define CLI_TOP_TOP_VIEW_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/top/top_model.h"

namespace paceline {

// kNewest: as in the model.
enum class JobOrder { kNewest, kName, kStepTime, kRate, kMfu };
enum class RankOrder { kRank, kSlowest, kWait, kMemory, kMfu };

struct TopView {
  std::string job;     // Id of the one that is shown alone; empty: all are.
  bool only = false;   // It was named on the command line: there is no way back to all.
  std::string cursor;  // Id of the job that Enter shows; empty: the first.
  int first = 0;       // Of the ranks: so many are scrolled away.
  JobOrder job_order = JobOrder::kNewest;
  RankOrder rank_order = RankOrder::kRank;
  bool reversed = false;
  std::string filter;   // Part of a name, an id, a node or a state; empty: everything.
  bool typing = false;  // The filter is being typed.
  bool ended = false;   // Jobs that have ended are shown too.
  bool help = false;
};

enum class Key {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
};

struct KeyPress {
  Key key = Key::kCharacter;
  char character = 0;  // Of kCharacter.
};

// What a terminal sent; what is not known is left out. Of several bytes that begin with ESC a
// sequence is made, ESC alone is kEscape.
std::vector<KeyPress> ReadKeys(absl::string_view bytes);

enum class TopAction { kNone, kQuit, kFetch, kSuspend };

// `page`: rows that are shown at once. kFetch: something else is to be fetched.
TopAction TakeKey(const KeyPress& press, const TopModel& model, int page, TopView& view);

// What is shown, in order. Pointers are into the model.
std::vector<const v1::Job*> ShownJobs(const TopModel& model, const TopView& view);
std::vector<const v1::RankTelemetry*> ShownRanks(const TopModel& model, const TopView& view);

// Place of the cursor among the jobs that are shown; 0 where there is none.
int CursorPlace(const std::vector<const v1::Job*>& jobs, const TopView& view);

// "newest", "slowest".
const char* NameOf(JobOrder order);
const char* NameOf(RankOrder order);

}  // namespace paceline

#endif  // CLI_TOP_TOP_VIEW_H_
