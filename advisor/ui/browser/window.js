let asked = null  // once for each theme and width, so that no difference asks for ever
if (!window.listCloses) {
  window.listCloses = true  // Streamlit folds the list of pages on phones, not in narrow windows
  document.addEventListener("click", ({ target }) => {
    const fold = () => document.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click()
    if (target.closest('[data-testid="stSidebarNavLink"]')) setTimeout(fold, 100)
  })
}
export default function ({ data, setStateValue, setTriggerValue }) {
  const app = document.querySelector('[data-testid="stApp"]')
  const look = () => {
    const [red, green, blue] = getComputedStyle(app).backgroundColor.match(/\d+/g).map(Number)
    const type = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 127 ? "light" : "dark"
    const narrow = window.innerWidth <= data.most
    if (type === data.drawn && narrow === data.narrow) { asked = null; return }
    const seen = `${type} ${narrow}`
    if (seen === asked) return
    asked = seen
    if (narrow !== data.narrow) setStateValue("narrow", narrow)
    if (type !== data.drawn) setTriggerValue("switched", type)
  }
  const observer = new MutationObserver(look)
  observer.observe(app, { attributes: true, attributeFilter: ["class"] })
  window.addEventListener("resize", look)
  look()
  return () => { observer.disconnect(); window.removeEventListener("resize", look) }
}
