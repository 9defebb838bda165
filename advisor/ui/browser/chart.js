// A chart that stays one node of the page: what an input changes is drawn into it.
const server = document.querySelector('script[src*="/static/js/"]').src
const fetched = (path, tries) => fetch(new URL(`../../component/${path}`, server), { cache: "force-cache" })
  .then(answer => answer.ok ? answer.blob() : Promise.reject(Error(`${path}: ${answer.status}`)))
  .catch(error => tries
    ? new Promise(later => setTimeout(later, 1000)).then(() => fetched(path, tries - 1))
    : Promise.reject(error))
const library = path => (window.plotlyFetched ??= fetched(path, 5)
  .then(code => import(URL.createObjectURL(code)))
  .catch(error => { window.plotlyFetched = null; throw error }))

export default async function ({ data, parentElement, setTriggerValue }) {
  const { figure, alt, config, clicks, plotly } = data
  if (!figure) { library(plotly); return }
  let chart = parentElement.querySelector("[role=figure]")
  if (!chart) {
    chart = parentElement.appendChild(document.createElement("div"))
    chart.role = "figure"
  }
  const { data: traces, layout } = JSON.parse(figure)
  chart.ariaLabel = alt
  chart.style.height = `${layout.height}px`
  const turn = chart.turn = (chart.turn ?? 0) + 1
  await library(plotly)
  if (turn !== chart.turn) return // a later call draws newer data
  await Plotly.react(chart, traces, layout, config)
  if (chart.watched) return
  chart.watched = true
  if (clicks) chart.on("plotly_click", ({ points: [point] }) => {
    if (point.customdata !== undefined) setTriggerValue("clicked", point.customdata)
  })
  // No clean-up is returned: Streamlit would run that of an early call after a later one has drawn.
  const fit = new ResizeObserver(() => {
    if (chart.offsetWidth) Plotly.Plots.resize(chart)
    if (chart.isConnected) return
    fit.disconnect()
    Plotly.purge(chart)
  })
  fit.observe(chart)
}
