// How the membership of a job changed while it trained, for people.
#ifndef CLI_VIEW_MEMBERSHIP_TEXT_H_
#define CLI_VIEW_MEMBERSHIP_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace paceline {

// "3 of 4 ranks" of a job that has shrunk; empty: it has all.
std::string FewerRanksText(const v1::Job& job);

// One row per change, oldest first; empty: there was none.
std::string ChangeTable(const v1::Job& job, absl::Time now, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_MEMBERSHIP_TEXT_H_
