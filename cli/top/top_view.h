// What the user of `paceline top` has selected by keys: the job, the order, the filter.
//
// Pure: a key and the present content give the next view.
#ifndef CLI_TOP_TOP_VIEW_H_
#define CLI_TOP_TOP_VIEW_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/top/top_model.h"

namespace paceline {

// kNewest: the order of the model.
enum class JobOrder { kNewest, kName, kStepTime, kRate, kMfu };
enum class RankOrder { kRank, kSlowest, kWait, kMemory, kMfu };

struct TopView {
  std::string job;     // Id of the job that is shown alone; empty: all jobs.
  bool only = false;   // Named on the command line: there is no way back to all jobs.
  std::string cursor;  // Id of the job that Enter opens; empty: the first.
  int first = 0;       // Number of ranks scrolled off the top.
  JobOrder job_order = JobOrder::kNewest;
  RankOrder rank_order = RankOrder::kRank;
  bool reversed = false;
  std::string filter;   // Part of a name, id, node or state; empty: show everything.
  bool typing = false;  // The filter is being typed.
  bool ended = false;   // Show ended jobs, too.
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
  char character = 0;  // Only for kCharacter.
};

// Parses what a terminal sent, dropping what is unknown. ESC followed by more bytes is read as a
// sequence, ESC alone as kEscape.
std::vector<KeyPress> ReadKeys(absl::string_view bytes);

enum class TopAction { kNone, kQuit, kFetch, kSuspend };

// `page`: number of rows shown. kFetch: other data must be fetched.
TopAction TakeKey(const KeyPress& press, const TopModel& model, int page, TopView& view);

// The jobs to show, in order. The pointers refer to the model.
std::vector<const v1::Job*> ShownJobs(const TopModel& model, const TopView& view);
std::vector<const v1::RankTelemetry*> ShownRanks(const TopModel& model, const TopView& view);

// Index of the cursor among the jobs shown; 0 if there is none.
int CursorPlace(const std::vector<const v1::Job*>& jobs, const TopView& view);

// "newest", "slowest".
const char* NameOf(JobOrder order);
const char* NameOf(RankOrder order);

}  // namespace paceline

#endif  // CLI_TOP_TOP_VIEW_H_
