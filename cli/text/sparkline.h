// Draws a series of numbers as one line of text.
#ifndef CLI_TEXT_SPARKLINE_H_
#define CLI_TEXT_SPARKLINE_H_

#include <string>
#include <vector>

namespace paceline {

// Draws `width` columns, or one per value if there are fewer values: the lowest value gets the
// lowest mark, the highest the highest. If there are more values, each column shows a mean. Values
// that are not finite or not above 0 are gaps. Without `utf8` the marks are ASCII: "_.-=*#".
std::string Sparkline(const std::vector<double>& values, int width, bool utf8);

}  // namespace paceline

#endif  // CLI_TEXT_SPARKLINE_H_
