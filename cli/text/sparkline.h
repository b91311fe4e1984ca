// A series of numbers in one line of text: a small picture of how it went.
#ifndef CLI_TEXT_SPARKLINE_H_
#define CLI_TEXT_SPARKLINE_H_

#include <string>
#include <vector>

namespace paceline {

// `width` columns, or fewer when there are fewer values: the lowest value is the lowest mark, the
// highest the highest. Of more values than columns each column shows a mean. A value that is not
// finite or not above 0 is a gap. Without `utf8` the marks are ASCII: "_.-=*#".
std::string Sparkline(const std::vector<double>& values, int width, bool utf8);

}  // namespace paceline

#endif  // CLI_TEXT_SPARKLINE_H_
