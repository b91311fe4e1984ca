// What ranks measure, and the profiles they made, for people.
#ifndef CLI_VIEW_JOB_FIGURES_TEXT_H_
#define CLI_VIEW_JOB_FIGURES_TEXT_H_

#include <string>

#include "proto/job.pb.h"

namespace paceline {

// Tokens per second of a job that counts tokens. Of a language model also before they are measured,
// from its samples. 0: it counts none, as far as known, or has no pace yet.
double TokensPerSecond(const v1::Job& job);

// Steps per second of the job: the mean over its ranks of their latest interval of log_every steps;
// before there is one, over the training so far. 0: it stands still, or has no pace yet.
double StepsPerSecond(const v1::Job& job);

// "1234 tokens/s" for jobs that count tokens, else "812 samples/s": at the moment, or over the
// whole training if the job has ended. Empty as long as there is no pace.
std::string PaceText(const v1::Job& job);

// "247 TFLOP/s of all ranks, counted in their first step", and why there is no MFU if so. Says also
// that nobody knows, once ranks have measured steps; before that, it is empty.
std::string FlopsFacts(const v1::Job& job);

// A table of the ranks with current figures; empty if there are none. Columns without values are
// left out. `width`: columns of the terminal, 0: unlimited.
std::string FigureTable(const v1::Job& job, int width, bool colours);

// Whether the rank, one of those chosen, has answered the newest profile, with success or not.
bool HasAnswered(const v1::Job& job, int rank);

// A table of the ranks in the job's newest profile. Requires: job.has_profile().
std::string ProfileTable(const v1::Job& job, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_FIGURES_TEXT_H_
