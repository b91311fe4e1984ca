// The page as text; make_page.py makes it from page.html and the files it names.
#ifndef CONTROLLER_PAGE_PAGE_TEXT_H_
#define CONTROLLER_PAGE_PAGE_TEXT_H_

namespace paceline {

extern const char kPageHtml[];
// Its Content-Security-Policy: only its own styles and code, and events from its server.
extern const char kPagePolicy[];

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_TEXT_H_
