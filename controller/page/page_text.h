// The page as text; made from page.html and what it names by make_page.py.
#ifndef CONTROLLER_PAGE_PAGE_TEXT_H_
#define CONTROLLER_PAGE_PAGE_TEXT_H_

namespace paceline {

extern const char kPageHtml[];
// Its Content-Security-Policy: nothing but its own styles and code, and events from its server.
extern const char kPagePolicy[];

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_TEXT_H_
