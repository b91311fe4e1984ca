// What ranks measure, and what profiles they made, for people.
#ifndef CLI_VIEW_JOB_FIGURES_TEXT_H_
#define CLI_VIEW_JOB_FIGURES_TEXT_H_

#include <string>

#include "proto/job.pb.h"

namespace paceline {

// Tokens per second of a job that counts them; of a language model also before they are measured,
// by its samples. 0: it counts none, as far as is known, or there is no pace yet.
double TokensPerSecond(const v1::Job& job);

// "1234 tokens/s" for jobs that count tokens, else "812 samples/s": at the moment, or over its
// whole training if the job has ended. Empty before there is a pace.
std::string PaceText(const v1::Job& job);

// A table of the ranks with figures of now; empty when none has any. Columns of which no rank has a
// value are left out. `width`: columns of the terminal, 0: unlimited.
std::string FigureTable(const v1::Job& job, int width, bool colours);

// Whether the chosen rank has answered the job's newest profile, well or not.
bool HasAnswered(const v1::Job& job, int rank);

// A table of the ranks of the job's newest profile. Requires: job.has_profile().
std::string ProfileTable(const v1::Job& job, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_FIGURES_TEXT_H_
